import prettyBytes from "pretty-bytes";
import type { MessageReport } from "../../lib/accounting/sending/sender.ts";
import { textTable } from "./table.ts";

/** What became of messages that were to be sent to AMS, as a table. */
export function sentTable(messages: readonly MessageReport[]): string {
  const rows = messages.map(({ message, status, kind = "-", units = [], bytes, signedBytes, amsId = "-" }) => [
    message,
    kind,
    units.length === 0 ? "-" : units,
    bytes === undefined ? "-" : sizeText(bytes, signedBytes),
    status === "would_send" ? "would send" : status.replace("_", " "),
    amsId,
  ]);
  return textTable(["message", "kind", "unit", "size", "status", "AMS id"], rows);
}

function sizeText(bytes: number, signedBytes: number | undefined): string {
  return signedBytes === undefined ? prettyBytes(bytes) : `${prettyBytes(bytes)}, signed ${prettyBytes(signedBytes)}`;
}
