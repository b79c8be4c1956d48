// The address of the page, as it is written. Ids have any characters: whoever reads the address decodes it, once.
import { useSearchParams } from 'wouter-preact';
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

/** What the page keeps in its address; `change` leaves out what is empty or undefined, and keeps what it does not name. */
export function useAddress(): {
  readonly search: URLSearchParams;
  readonly change: (values: Readonly<Record<string, string | undefined>>) => void;
} {
  const [search, setSearch] = useSearchParams();
  const change = (values: Readonly<Record<string, string | undefined>>): void =>
    setSearch(
      (before) => {
        const all: Record<string, string | undefined> = { ...Object.fromEntries(before), ...values };
        return Object.entries(all).filter((entry): entry is [string, string] => (entry[1] ?? '') !== '');
      },
      { replace: true },
    );
  return { search, change };
}
