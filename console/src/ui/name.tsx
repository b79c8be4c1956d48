import type { JSX } from 'preact';

/** Spaces at an end or in a row, and what else takes room or none without being seen. What joins letters of a script is none of it. */
const UNSEEN = /^ +| +$| {2,}|(?![ \u200c\u200d])[\s\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}]/gu;

/** As `U+00A0`; of several, each one. */
const codesOf = (text: string): string =>
  Array.from(text, (one) => `U+${(one.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`).join(' ');

/** A name or an id that people of the tenant have chosen: characters in it that can't be seen are marked, and copied as they are. */
export function Name({ of }: { readonly of: string | undefined }): JSX.Element {
  const parts: (JSX.Element | string)[] = [];
  let end = 0;
  for (const { 0: unseen, index } of (of ?? '').matchAll(UNSEEN)) {
    parts.push(
      (of ?? '').slice(end, index),
      <span key={index} class={/^[ \u00a0]+$/.test(unseen) ? 'unseen spaces' : 'unseen'} title={codesOf(unseen)}>
        {unseen}
      </span>,
    );
    end = index + unseen.length;
  }
  return (
    <>
      {parts}
      {(of ?? '').slice(end)}
    </>
  );
}

/** As a keyboard can type it: a text with characters that can't be seen stands as JSON, with those escaped that no key has. */
export function typeable(text: string): string {
  if (text.search(UNSEEN) < 0) return text;
  return JSON.stringify(text).replaceAll(/(?! )[\s\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}]/gu, (one) =>
    Array.from({ length: one.length }, (_, n) => `\\u${one.charCodeAt(n).toString(16).padStart(4, '0')}`).join(''),
  );
}
