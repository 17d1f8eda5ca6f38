/** python-dirq's granularity: a new directory at most once a minute. */
const GRANULARITY = 60;

const DIRECTORY = /^[0-9a-f]{8}$/;
const ELEMENT = /^[0-9a-f]{14}$/;

export function isDirqDirectory(name: string): boolean {
  return DIRECTORY.test(name);
}

export function isDirqElement(name: string): boolean {
  return ELEMENT.test(name);
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

let last = 0;

/**
 * A new element's name, as python-dirq makes it: `<8 hex: seconds><5 hex: microseconds><1 hex: random>`, in the
 * directory of its minute. Names of one process ascend even if the clock does not.
 */
export function newDirqName(): { readonly directory: string; readonly file: string } {
  last = Math.max(Date.now() * 1000, last + 1);
  const seconds = Math.floor(last / 1_000_000);
  const random = Math.floor(Math.random() * 16);
  return {
    directory: hex(seconds - (seconds % GRANULARITY), 8),
    file: hex(seconds, 8) + hex(last % 1_000_000, 5) + hex(random, 1),
  };
}
