/** A file in ssmsend's queue and the APEL keys whose figures it replaces; none if it is no APEL message. */
export type KeyedFile = { readonly name: string; readonly keys: ReadonlySet<string> };

/** `older`: files to take out first. `uncovered`: a file that must be sent before, since it holds keys the new one lacks. */
export type Overlap =
  | { readonly older: readonly string[] }
  | { readonly uncovered: string; readonly lacking: readonly string[] };

/**
 * Which files in the queue the new keys replace. APEL: a summary loaded later replaces the row, so a file with any of the
 * keys must not be sent after the new ones, and may be dropped only if they hold all its keys.
 */
export function overlapWith(files: readonly KeyedFile[], newKeys: ReadonlySet<string>): Overlap {
  const older: string[] = [];
  for (const { name, keys } of files) {
    const lacking = [...keys].filter((key) => !newKeys.has(key));
    if (lacking.length === keys.size) continue;
    if (lacking.length > 0) return { uncovered: name, lacking };
    older.push(name);
  }
  return { older };
}
