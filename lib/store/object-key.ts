/** Stored objects are files `<key>.v<ten digits>`, so no segment of a key may look like one. */
const SEGMENT = /^(?!.*\.v\d{10}$)[A-Za-z0-9_=-][A-Za-z0-9._=-]*$/;

/** Whether every store can hold the key. */
export function isKey(key: string): boolean {
  return key.split("/").every((segment) => SEGMENT.test(segment));
}

/**
 * The key itself, if every store can hold it. A key is made by the program (see `safeSegment`), so a bad one is a fault
 * of the program.
 * @throws TypeError
 */
export function checkedKey(key: string): string {
  if (!isKey(key)) {
    throw new TypeError(`"${key}" is no key for an object store: encode its parts with safeSegment`);
  }
  return key;
}
