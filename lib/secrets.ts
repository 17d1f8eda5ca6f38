/** What of an Authorization header must never be shown: the header, what follows its scheme, and of Basic the password in it. */
export function secretsOfHeader(header: string | undefined): readonly string[] {
  if (header === undefined) return [];
  const credential = header.trim().replace(/^\S+\s+/, "");
  const basic = /^basic\s/i.test(header.trim()) ? Buffer.from(credential, "base64").toString("utf8") : "";
  const at = basic.indexOf(":");
  const [user, password] = at < 0 ? [basic, ""] : [basic.slice(0, at), basic.slice(at + 1)];
  // Without a password the user is the token, as some services have it.
  return [header, credential, basic, password === "" ? user : password];
}

/** The same of an address: user and password together, the password, and the query string, which may hold a token. */
export function secretsOfAddress(url: URL): readonly string[] {
  const [user, password] = [decoded(url.username), decoded(url.password)];
  if (user === "" && password === "") return [url.search.slice(1)];
  const raw = url.password === "" ? url.username : url.password;
  const basic = Buffer.from(`${user}:${password}`, "utf8").toString("base64");
  return [...secretsOfHeader(`Basic ${basic}`), raw, url.search.slice(1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Takes secrets out of a text, in each form in which a server, a proxy or a library echoes them: as they are, percent-encoded,
 * within JSON or HTML, and in base64.
 */
export function hiderOf(secrets: readonly string[]): (text: string) => string {
  const forms = new Set(secrets.filter((secret) => secret !== "").flatMap(formsOf));
  if (forms.size === 0) return (text) => text;
  // The longest first, so that no part of one is left over where a shorter one is its beginning.
  const longestFirst = [...forms].toSorted((a, b) => b.length - a.length);
  const pattern = new RegExp(longestFirst.map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"), "g");
  return (text) => text.replace(pattern, "***");
}

function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, "utf8");
  // Without the padding, which may be there or not.
  const inBase64 = [bytes.toString("base64").replace(/=+$/, ""), bytes.toString("base64url")];
  return [secret, ...inBase64].flatMap((text) => [text, ...percentEncoded(text), ...quoted(text)]);
}

/** Programs differ in which characters they encode, in the case of the digits, and in what they make of a space. */
function percentEncoded(text: string): readonly string[] {
  // Half of a surrogate pair cannot be encoded.
  const whole = Buffer.from(text, "utf8").toString("utf8");
  const component = encodeURIComponent(whole);
  const strict = component.replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  const forms = [component, strict, encodeURI(whole)];
  const spaced = [...forms, ...forms.map((form) => form.replaceAll("%20", "+"))];
  return [...spaced, ...spaced.map((form) => form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()))];
}

/** Within a text of JSON or Go, and of HTML. */
function quoted(text: string): readonly string[] {
  const html = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return [
    JSON.stringify(text).slice(1, -1),
    html,
    html.replaceAll('"', "&quot;").replaceAll("'", "&apos;"),
    html.replaceAll('"', "&#34;").replaceAll("'", "&#39;"),
  ];
}

/** Whether what is sent to an address can be read on its way: plain http to another machine. */
export function isInTheClear({ protocol, hostname }: URL): boolean {
  return protocol === "http:" && !/^(?:(?:.*\.)?localhost|127\.\d+\.\d+\.\d+|\[::1\])\.?$/.test(hostname);
}
