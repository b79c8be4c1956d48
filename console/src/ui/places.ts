// Where lists were left: Back and Forward come to the same place of them, and a link to their beginning.

const places = new Map<string, number>();
let isByHistory = false;

addEventListener('popstate', () => (isByHistory = true));
// What the router tells of each address that it goes to.
addEventListener('pushState', () => (isByHistory = false));

const nameOf = (label: string): string => `${label} ${location.href}`;

/** `top`: in pixels. */
export const leavePlace = (label: string, top: number): void => void places.set(nameOf(label), top);

/** 0: the list begins at its beginning. */
export const placeOf = (label: string): number => (isByHistory ? (places.get(nameOf(label)) ?? 0) : 0);
