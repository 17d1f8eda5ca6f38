import { GridmeterError, errorText } from "../../shared/errors.ts";
import { readChecked } from "../apel/check.ts";
import { parsedUnit } from "../apel/record.ts";
import { replacingKeys } from "../apel/replace-keys.ts";
import { problemText } from "../apel/values.ts";
import { unitName } from "../model/tenant.ts";
import type { AmsClient } from "./ams.ts";
import type { HostIdentity } from "./host-certificate.ts";
import { signMessage } from "./signature.ts";

/**
 * - `sent`: AMS has it, under `amsId`
 * - `would_send`: a dry run; it is signed and not sent
 * - `waiting`: it stays where it is; `reason` says for what
 * - `refused`: it is of no use and set aside; `reason` says why, and where it is
 * - `superseded`: not sent, a later generation holds all its APEL keys
 * - `already_sent`: it was sent or spooled before
 */
type SendStatus = "sent" | "would_send" | "waiting" | "refused" | "superseded" | "already_sent";

/** What became of one message. */
export type MessageReport = {
  /** its name in the queue, or its key in the bucket */
  readonly message: string;
  readonly status: SendStatus;
  /** what its records are; absent where it could not be read */
  readonly kind?: string;
  /** site, submit host and month of its records, each once */
  readonly units?: readonly string[];
  /** of the text */
  readonly bytes?: number;
  /** as it goes to AMS: signed and in base64 */
  readonly signedBytes?: number;
  readonly amsId?: string;
  readonly reason?: string;
};

export type SendReport = {
  readonly messages: readonly MessageReport[];
  /** what ended the sending, or kept a unit from being sent; none if all went well */
  readonly errors: readonly unknown[];
};

/** APEL's service takes less than 1 MB, signature and base64 included. */
const LARGEST_SIGNED = 1_000_000;

/** What of a message is known before it is signed. */
export type Examined = Pick<MessageReport, "kind" | "units" | "bytes"> & {
  /** why it must not be sent */
  readonly fault?: string;
  /** APEL's keys of the figures that it replaces */
  readonly keys: readonly string[];
};

/**
 * Reads a message and judges it by APEL's rules. Never throws.
 * @param now epoch seconds, for APEL's rules about the future
 */
export function examine(text: string, now: number): Examined {
  const bytes = Buffer.byteLength(text);
  const line = text.split("\n").findIndex((each) => /[^\0-\x7F]/.test(each)) + 1;
  if (line > 0)
    return { bytes, keys: [], fault: `line ${line} holds a byte that is not ASCII, which would end APEL's receiver` };
  try {
    const { kind, records, problems } = readChecked(text, now);
    if (problems.length > 0) return { bytes, keys: [], fault: `it breaks APEL's rules: ${problemText(problems)}` };
    const units = records.map((record) => unitName(parsedUnit(record)));
    return { bytes, units: [...new Set(units)], keys: replacingKeys(text), ...(kind === undefined ? {} : { kind }) };
  } catch (thrown) {
    return { bytes, keys: [], fault: `gridmeter cannot read it (${errorText(thrown)})` };
  }
}

type SenderOptions = {
  readonly client: AmsClient;
  readonly identity: HostIdentity;
  /** signs, and sends nothing */
  readonly dryRun: boolean;
  /** epoch seconds */
  readonly now: () => number;
};

/** Signs messages and hands them to AMS. */
export class Sender {
  readonly dryRun: boolean;
  readonly now: () => number;
  readonly #client: AmsClient;
  readonly #identity: HostIdentity;

  constructor({ client, identity, dryRun, now }: SenderOptions) {
    this.#client = client;
    this.#identity = identity;
    this.dryRun = dryRun;
    this.now = now;
  }

  /** Where messages go, for what is kept of them. */
  get place() {
    const { host, project, topic } = this.#client.place;
    return { host, project, topic };
  }

  /**
   * Signs a message and sends it.
   * @param name of the message in reports, and `id` in the receiver's log
   * @param before is waited for before each request
   * @throws GridmeterError `ams_...` where the service takes none at all now; whatever `before` throws
   */
  async send(name: string, id: string, text: string, before?: () => Promise<void>): Promise<MessageReport> {
    const { fault, keys: _, ...examined } = examine(text, this.now());
    const report = { message: name, ...examined };
    if (fault !== undefined) return { ...report, status: "refused", reason: fault };
    const signed = signMessage(text, this.#identity);
    // As base64 has it.
    const signedBytes = Math.ceil(signed.length / 3) * 4;
    const whole = { ...report, signedBytes };
    if (signedBytes > LARGEST_SIGNED) {
      const reason = `it has ${signedBytes} bytes once it is signed, more than the ${LARGEST_SIGNED} that AMS takes`;
      return { ...whole, status: "refused", reason };
    }
    if (this.dryRun) return { ...whole, status: "would_send" };
    try {
      return { ...whole, status: "sent", amsId: await this.#client.publish({ id, signed }, before) };
    } catch (thrown) {
      if (!(thrown instanceof GridmeterError) || thrown.code !== "message_too_large") throw thrown;
      return { ...whole, status: "refused", reason: thrown.message };
    }
  }
}

/** The error for a message that was set aside. */
export function refusal({ message, reason = "" }: MessageReport): GridmeterError {
  return new GridmeterError("message_invalid", `${message} was not sent and is set aside: ${reason}.`);
}
