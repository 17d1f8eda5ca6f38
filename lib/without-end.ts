/** A text without this character at its end, however often. A pattern such as `x+$` needs a time that grows with the text's square. */
export const withoutEnd = (text: string, character: string): string => {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
};
