// The address of the page, as it is written. Ids have any characters: whoever reads the address decodes it, once.
import { useBrowserLocation, useSearch, type BrowserLocationHook } from 'wouter-preact/use-browser-location';

/** The router decodes what its hooks give, as `decodeURI` does, whose result can't be decoded again: this leaves it as it was. */
const asWritten = (text: string): string => text.replaceAll('%', '%25');

export const useWrittenPath: BrowserLocationHook = (options) => {
  const [path, navigate] = useBrowserLocation(options);
  return [asWritten(path), navigate];
};

export const useWrittenSearch = (): string => asWritten(useSearch());

/** Of one part of a path; as it is where it is not encoded. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
