import type { ServerResponse } from "node:http";
import { isIPv6, type Socket } from "node:net";

/** Connections in all, and from one address: Prometheus keeps one, and the kubelet opens one for each question. */
const MOST = 200;
const MOST_FROM_ADDRESS = 50;

/** An address that a neighbour cannot change at will: of IPv6 the network, in which each has as many addresses as he likes. */
const neighbour = (address: string): string => {
  if (!isIPv6(address)) return address;
  if (address.startsWith("::ffff:")) return address.slice("::ffff:".length);
  return address.startsWith("::") ? address : address.split(":").slice(0, 4).join(":");
};

/**
 * The connections of the port. A new one is always taken, so that no crowd of idle ones shuts out a scrape or the question whether
 * the agent is alive: where there are too many, in all or from one address, the one that has been idle longest gives way; if none is
 * idle, the one whose client has been reading its answer longest.
 */
export class Connections {
  /** by when they became so, the first one first */
  readonly #idle = new Map<Socket, string>();
  readonly #busy = new Map<Socket, { readonly from: string; readonly answers: number }>();

  /** Takes a new connection. */
  take(socket: Socket): void {
    const from = neighbour(socket.remoteAddress ?? "");
    const connections = [...this.#all()];
    const fromThere = connections.filter(([, other]) => other === from);
    const tooMany = fromThere.length >= MOST_FROM_ADDRESS ? fromThere : connections.length >= MOST ? connections : [];
    const [givesWay] = tooMany[0] ?? [];
    if (givesWay !== undefined) {
      this.#forget(givesWay);
      givesWay.destroy();
    }
    this.#idle.set(socket, from);
    socket.once("close", () => this.#forget(socket));
  }

  /** Notes that a connection is at work until its answer has been sent. */
  answering(socket: Socket, response: ServerResponse): void {
    const from = this.#idle.get(socket) ?? this.#busy.get(socket)?.from;
    if (from === undefined) return;
    this.#idle.delete(socket);
    this.#busy.set(socket, { from, answers: (this.#busy.get(socket)?.answers ?? 0) + 1 });
    response.once("close", () => this.#answered(socket));
  }

  #answered(socket: Socket): void {
    const busy = this.#busy.get(socket);
    if (busy === undefined) return;
    if (busy.answers > 1) {
      this.#busy.set(socket, { ...busy, answers: busy.answers - 1 });
      return;
    }
    this.#busy.delete(socket);
    if (!socket.destroyed) this.#idle.set(socket, busy.from);
  }

  #forget(socket: Socket): void {
    this.#idle.delete(socket);
    this.#busy.delete(socket);
  }

  /** In the order in which they give way, with where they come from. */
  *#all(): Generator<readonly [Socket, string]> {
    yield* this.#idle;
    for (const [socket, { from }] of this.#busy) yield [socket, from];
  }
}
