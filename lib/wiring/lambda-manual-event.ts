import { z } from "zod";
import { GridmeterError } from "../errors.ts";
import { shapeText } from "../shape-text.ts";

const s3Event = z.object({
  Records: z.array(
    z.object({
      s3: z.object({ bucket: z.object({ name: z.string() }), object: z.object({ key: z.string() }) }),
    }),
  ),
});

/** A file that S3 tells of; `key` as it stands in the event. */
export type ToldFile = { readonly bucket: string; readonly key: string };

/** The files of an event from S3, or of one that somebody wrote by hand. @throws GridmeterError `config_invalid` */
export function toldFiles(event: unknown): readonly ToldFile[] {
  const parsed = s3Event.safeParse(event);
  if (parsed.success)
    return parsed.data.Records.map(({ s3: { bucket, object } }) => ({ bucket: bucket.name, key: object.key }));
  throw new GridmeterError(
    "config_invalid",
    `The event of manual ${JSON.stringify(event)?.slice(0, 300)} is none of S3: ${shapeText(parsed.error)}. ` +
      "No record was sent. Give one like events/manual-s3.json, or put the file under manual/incoming/ once more.",
  );
}

/** The key of a file; S3 writes keys into its events as a form would. Undefined if it is no such text. */
export function toldKey({ key }: ToldFile): string | undefined {
  try {
    return decodeURIComponent(key.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}
