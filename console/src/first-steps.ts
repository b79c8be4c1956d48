/** What became of the first steps of a tenant, by its `owner` of the session. */
const NAME = 'statefold.first-steps';

type Choices = Readonly<Record<string, 'open' | 'closed'>>;

function choicesIn(storage: Storage): Choices {
  try {
    return (JSON.parse(storage.getItem(NAME) ?? '{}') ?? {}) as Choices;
  } catch {
    return {};
  }
}

const put = (storage: Storage, owner: string, choice: 'open' | 'closed'): void =>
  storage.setItem(NAME, JSON.stringify({ ...choicesIn(storage), [owner]: choice }));

/** Undefined: nobody has seen or closed them here. That they are open holds for the tab; that they are closed, for the browser. */
export const firstStepsOf = (owner: string): 'open' | 'closed' | undefined =>
  choicesIn(sessionStorage)[owner] ?? choicesIn(localStorage)[owner];

export const keepFirstStepsOpen = (owner: string): void => put(sessionStorage, owner, 'open');

export function closeFirstSteps(owner: string): void {
  put(sessionStorage, owner, 'closed');
  put(localStorage, owner, 'closed');
}
