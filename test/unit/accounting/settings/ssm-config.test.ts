import { describe, expect, test } from "vitest";
import { parseSsmConfig } from "../../../../lib/accounting/settings/ssm-config.ts";

const PATH = "/etc/apel/sender.cfg";
/** As the package apel-ssm installs it, with a host. */
const SENDER_CFG = `[sender]
# Either 'STOMP' for STOMP message brokers or 'AMS' for Argo Messaging Service
protocol: AMS

[broker]
host: msg.argo.grnet.gr
port: 443
use_ssl: true

[certificates]
certificate: /etc/grid-security/hostcert.pem
key: /etc/grid-security/hostkey.pem
capath: /etc/grid-security/certificates
#server_cert: /etc/grid-security/servercert.pem

[messaging]
ams_project: accounting
destination: gLite-APEL
#token:
path: /var/spool/apel/outgoing
path_type: dirq

[logging]
logfile: /var/log/apel/ssmsend.log
`;

test("the file as it is installed", () => {
  expect(parseSsmConfig(SENDER_CFG, PATH)).toEqual({
    host: "msg.argo.grnet.gr",
    certificate: "/etc/grid-security/hostcert.pem",
    key: "/etc/grid-security/hostkey.pem",
    capath: "/etc/grid-security/certificates",
    project: "accounting",
    topic: "gLite-APEL",
    source: "dirq:/var/spool/apel/outgoing",
  });
});

test("what Python's configparser takes: = and :, capitals, blanks, comments, %%, and no path_type is a dirq", () => {
  const text = `; comment\n[sender]\nProtocol = AMS\r\n[messaging]\nTOKEN=a%%b:c=d\npath = /a b\n  \n[broker]\n  # indented comment\nHost :h.example.org\n`;
  expect(parseSsmConfig(text, PATH)).toEqual({ host: "h.example.org", token: "a%b:c=d", source: "dirq:/a b" });
  expect(parseSsmConfig(SENDER_CFG.replace("path_type: dirq", "path_type: directory"), PATH).source).toBe(
    "dir:/var/spool/apel/outgoing",
  );
});

describe("refused", () => {
  test.each<[string, string, RegExp]>([
    [
      "STOMP",
      SENDER_CFG.replace("protocol: AMS", "protocol: STOMP"),
      /has protocol: STOMP in \[sender\], and gridmeter sends to AMS only/,
    ],
    [
      "no protocol",
      SENDER_CFG.replace("protocol: AMS", ""),
      /no protocol in \[sender\], which ssmsend takes for STOMP/,
    ],
    ["another protocol", SENDER_CFG.replace("protocol: AMS", "protocol: ams"), /has protocol: "ams"/],
    [
      "encryption",
      SENDER_CFG.replace("#server_cert", "server_cert"),
      /server_cert: "\/etc\/grid-security\/servercert\.pem".*does not encrypt/,
    ],
    [
      "another path_type",
      SENDER_CFG.replace("path_type: dirq", "path_type: queue"),
      /path_type: "queue".*Write dirq or directory/,
    ],
    ["an expansion", SENDER_CFG.replace("path: /var", "path: %(root)s/var"), /%\(\.\.\.\) is not expanded/],
    ["a line that is none", "[sender]\nprotocol AMS\n", /line 2 is neither/],
    ["an option before any section", "protocol: AMS\n", /line 1 is neither/],
    ["an empty file", "", /no protocol/],
  ])("%s", (_, text, message) => {
    expect(() => parseSsmConfig(text, PATH)).toThrow(message);
    expect(() => parseSsmConfig(text, PATH)).toThrow(expect.objectContaining({ code: "config_invalid" }));
    expect(() => parseSsmConfig(text, PATH)).toThrow(/\/etc\/apel\/sender\.cfg.*Nothing was sent/);
  });
});
