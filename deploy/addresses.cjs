// Addresses that stand in the functions' environment, and so in the template of the stack: refused where a user, a password or a
// token is in them. The functions look once more (functions/common/runtime.ts), since the environment can be changed by hand.
const bare =
  (name, parameter) =>
  async ({ resolveVariable }) => {
    const text = ((await resolveVariable(`env:${name}, ''`)) ?? "").trim();
    if (text === "") return null;
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const holdsCredentials =
      url === undefined
        ? text.includes("@")
        : `${url.username}${url.password}${url.search}` !== "" || url.pathname.includes("@");
    if (!holdsCredentials) return text;
    throw new Error(
      `${name} holds credentials, which would be legible in the template and in the functions' environment. Nothing was packaged. ` +
        `Take them out of it, store the header (Basic and the base64 of user:password) as a SecureString with "aws ssm put-parameter", and name that in ${parameter}.`,
    );
  };

module.exports = {
  prometheusServer: bare("PROMETHEUS_SERVER", "PROMETHEUS_AUTH_HEADER_PARAMETER"),
  pushgatewayUrl: bare("PUSHGATEWAY_URL", "PUSHGATEWAY_AUTH_HEADER_PARAMETER"),
};
