/** A member's name as a part of a JSON pointer (RFC 6901). */
export const escapedPart = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

/** The parts of a JSON pointer, unescaped. */
export const partsOfPointer = (pointer: string): readonly string[] =>
  pointer === ''
    ? []
    : pointer
        .slice(1)
        .split('/')
        .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
