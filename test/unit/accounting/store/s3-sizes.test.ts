import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { S3Client } from "@aws-sdk/client-s3";
import * as fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { LARGEST_FILE } from "../../../../lib/accounting/publishing/manual-file.ts";
import { S3Store } from "../../../../lib/accounting/store/s3.ts";
import { manualFile } from "../../../../functions/manual.ts";
import { objectText } from "../../../../functions/common/settings.ts";
import { createSqs } from "../../../../lib/accounting/store/aws.ts";
import { createSsm } from "../../../../functions/common/runtime.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** A server that speaks as much of S3 as one test needs. */
async function clientOf(listener: RequestListener): Promise<S3Client> {
  server = createServer(listener);
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return new S3Client({
    region: "us-east-1",
    endpoint: `http://127.0.0.1:${port}`,
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: "a", secretAccessKey: "b" },
  });
}
const storeOf = async (listener: RequestListener) =>
  new S3Store({ client: await clientOf(listener), bucket: "b", prefix: "p" });

/** Sends until nobody takes any more; says how much it was. */
function endless(sent: { bytes: number }): RequestListener {
  return (_request, response) => {
    const chunk = Buffer.alloc(65_536, "x");
    const more = (): void => {
      if (response.destroyed) return;
      sent.bytes += chunk.length;
      response.write(chunk, () => setImmediate(more));
    };
    response.writeHead(200, { "Transfer-Encoding": "chunked", ETag: '"e"' });
    more();
  };
}

describe("the length is asked before the body", () => {
  test.each([300_000_000, 560_000_000, 6_000_000_000])(
    "an object of %i bytes is refused by name, unread",
    async (length) => {
      let asked = 0;
      const store = await storeOf((_request, response) => {
        asked += 1;
        response.writeHead(200, { "Content-Length": length, ETag: '"e"' });
        response.write("x");
      });
      await expect(store.get("outgoing/a")).rejects.toMatchObject({
        code: "object_too_large",
        retryable: false,
        message: expect.stringMatching(new RegExp(`^s3://b/p/outgoing/a has ${length} bytes or more`)),
      });
      expect(asked).toBe(1);
    },
  );

  test("without a length, or longer than announced: cut off at the bound", async () => {
    const sent = { bytes: 0 };
    const store = await storeOf(endless(sent));
    await expect(store.get("a", 1_000_000)).rejects.toMatchObject({ code: "object_too_large" });
    expect(sent.bytes).toBeLessThan(20_000_000);
  });

  test("drawn: what is as large as allowed is read, one byte more is not", async () => {
    let body = Buffer.alloc(0);
    const store = await storeOf((_request, response) => response.writeHead(200, { ETag: '"e"' }).end(body));
    await fc.assert(
      fc.asyncProperty(fc.nat(200_000), fc.integer({ min: -2, max: 2 }), async (size, beyond) => {
        body = Buffer.alloc(size, "x");
        const most = Math.max(0, size - beyond);
        const got = await store.get("a", most).then(
          (object) => object?.body.length,
          (error: { code: string }) => error.code,
        );
        expect(got).toBe(size > most ? "object_too_large" : size);
      }),
      { numRuns: 40 },
    );
  });
});

describe("the functions", () => {
  const partsOf = async (listener: RequestListener) => ({
    env: { GRIDMETER_BUCKET: "b", TENANTS_OBJECT: "tenants.yaml", AWS_REGION: "us-east-1" },
    s3: await clientOf(listener),
    sqs: createSqs({ AWS_REGION: "us-east-1" }),
    ssm: createSsm({ AWS_REGION: "us-east-1" }),
  });

  test("a manual upload of 200 MB is moved by S3 itself, with the reason beside it", async () => {
    const asked: string[] = [];
    const parts = await partsOf((request, response) => {
      asked.push(
        `${request.method} ${request.url!.split("?")[0]} ${String(request.headers["x-amz-copy-source"] ?? "")}`.trim(),
      );
      if (request.method === "GET") {
        response.writeHead(200, { "Content-Length": 200_000_000, ETag: '"e"' });
        response.write("x");
        return;
      }
      request.resume();
      const copied = "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>";
      request.on("end", () =>
        response.writeHead(200).end(request.headers["x-amz-copy-source"] === undefined ? "" : copied),
      );
    });
    const outcome = await manualFile({ bucket: "b", key: "manual/incoming/a+b.txt" }, 0, parts);
    expect(outcome).toEqual({ key: "manual/incoming/a b.txt", outcome: "refused" });
    expect(asked).toEqual([
      "GET /b/manual/incoming/a%20b.txt",
      "PUT /b/manual/refused/a%20b.txt.reason.txt",
      "PUT /b/manual/refused/a%20b.txt b/manual/incoming/a%20b.txt",
      "DELETE /b/manual/incoming/a%20b.txt",
    ]);
    expect(LARGEST_FILE).toBe(5_000_000);
  });

  test("a tenants file that is far too large is refused by name", async () => {
    const parts = await partsOf((_request, response) => {
      response.writeHead(200, { "Content-Length": 50_000_000, ETag: '"e"' });
      response.write("x");
    });
    await expect(objectText(parts, "TENANTS_OBJECT")).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(/s3:\/\/b\/tenants\.yaml, which has 50000000 bytes or more/),
    });
  });
});
