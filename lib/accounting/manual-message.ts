import { MAX_BYTES, MAX_RECORDS } from "../apel/check.ts";
import type { OutgoingMessage } from "../outbox/outgoing.ts";
import { unitKey } from "./guard.ts";
import type { ManualRecord } from "./manual-file.ts";
import type { Unit } from "./tenant.ts";

/** Records by the unit to which they belong, in their order. */
export function byUnit(
  records: readonly ManualRecord[],
): readonly { readonly unit: Unit; readonly records: readonly ManualRecord[] }[] {
  const units = new Map<string, { unit: Unit; records: ManualRecord[] }>();
  for (const record of records) {
    const held = units.get(unitKey(record.unit));
    if (held === undefined) units.set(unitKey(record.unit), { unit: record.unit, records: [record] });
    else held.records.push(record);
  }
  return [...units.values()];
}

/** The records' messages, in the file's order, each at most 500 records and 500 kB (APEL). Records of one file are of one kind. */
export function compose(header: string, records: readonly ManualRecord[]): readonly OutgoingMessage[] {
  const messages: { kind: string; body: string; count: number }[] = [];
  for (const { record, text } of records) {
    const open = messages.at(-1);
    if (open === undefined || open.count === MAX_RECORDS || open.body.length + text.length > MAX_BYTES) {
      messages.push({ kind: record.kind, body: `${header}\n${text}`, count: 1 });
    } else {
      open.body += text;
      open.count += 1;
    }
  }
  return messages.map(({ kind, body }) => ({ kind, body }));
}
