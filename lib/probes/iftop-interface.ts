/**
 * The interface of the default route with the lowest metric, out of the text of /proc/net/route; undefined where there is
 * none. iftop's own choice, the first interface it finds, may be one that no packet ever reaches (openpai#1719).
 */
export const defaultInterface = (table: string): string | undefined => {
  const routes = table.split("\n").flatMap((line) => {
    const [name, destination, , flags, , , metric, mask] = line.slice(0, 512).trim().split(/\s+/);
    // bit 0 of the flags: the route is up
    const up = /^[0-9A-F]{4}$/i.test(flags ?? "") && Number.parseInt(flags ?? "", 16) % 2 === 1;
    if (name === undefined || destination !== "00000000" || mask !== "00000000" || !up) return [];
    return [{ name, metric: Number.parseInt(metric ?? "", 10) || 0 }];
  });
  return routes.sort((a, b) => a.metric - b.metric)[0]?.name;
};
