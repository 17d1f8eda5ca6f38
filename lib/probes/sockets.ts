import { isIPv4, isIPv6 } from "node:net";

/** An address and a port. */
export type Endpoint = { readonly address: string; readonly port: number };

/**
 * Reads `10.0.0.1:80` and `[fd00::1]:80`, as lsof and `iftop -n -N -P` print them. Undefined for names, for an address
 * without a port, and for an IPv6 address that iftop has cut at its column's end: it may be any of several.
 */
export const parseEndpoint = (text: string): Endpoint | undefined => {
  const [, six, four, digits] = /^(?:\[([0-9a-fA-F:.]{2,45})\]|([0-9.]{7,15})):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return undefined;
  if (four !== undefined) return isIPv4(four) ? { address: four, port } : undefined;
  if (six === undefined || !isIPv6(six)) return undefined;
  // an IPv4 connection of an IPv6 socket: iftop sees its packets as IPv4
  const mapped = /^::ffff:([0-9.]{7,15})$/i.exec(six)?.[1];
  return { address: mapped ?? six.toLowerCase(), port };
};

/** A text by which endpoints are compared. */
export const endpointKey = ({ address, port }: Endpoint): string => `${address} ${port}`;
