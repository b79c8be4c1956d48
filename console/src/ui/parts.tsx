import { isClientError, RefusedError } from '@statefold/client';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Loaded } from '../load';
import type { Pages } from '../pages-of';
import { timeOf } from '../words';
import { Name } from './name';

type Children = { readonly children?: ComponentChildren };

export function Page({
  title,
  aside,
  children,
}: Children & { readonly title: string; readonly aside?: ComponentChildren }): JSX.Element {
  useEffect(() => {
    document.title = `${title} – Statefold`;
  }, [title]);
  return (
    <>
      <header class="page-head">
        <h1>
          <Name of={title} />
        </h1>
        <div class="page-aside">{aside}</div>
      </header>
      {children}
    </>
  );
}

/** Nothing is there: says why, and what to do about it. */
export const Empty = ({ title, children }: Children & { readonly title: string }): JSX.Element => (
  <div class="empty">
    <h2>{title}</h2>
    {children}
  </div>
);

/** What is asked for is not there: it is not asked for again by itself, since it may never come. */
export const Missing = ({
  title,
  of: { reload, isLoading },
  children,
}: Children & { readonly title: string; readonly of: Pick<Loaded<unknown>, 'reload' | 'isLoading'> }): JSX.Element => (
  <Empty title={title}>
    {children}
    <button type="button" disabled={isLoading} onClick={reload}>
      Look again
    </button>
  </Empty>
);

/** A file of the console that is not there: the service has another version since the page was opened, or nobody answers. */
const isMissingFile = (error: unknown): boolean =>
  error instanceof TypeError && /module script|dynamically imported module|Importing a module/i.test(error.message);

/** What went wrong, in the service's own words, with what its people ask for: the code and the id of the request. */
export function Failure({
  error,
  onRetry,
  children,
}: Children & { readonly error: unknown; readonly onRetry?: () => void }): JSX.Element {
  const refused = error instanceof RefusedError ? error.problem : undefined;
  const isStale = isMissingFile(error);
  const text = isStale
    ? 'A part of the console could not be fetched: the service may have a new version, or not be there.'
    : isClientError(error) || error instanceof Error
      ? error.message
      : String(error);
  return (
    <div class="failure" role="alert">
      <p>{text}</p>
      {refused?.errors?.map(({ pointer, message }) => (
        <p key={pointer}>
          <code>{pointer}</code> {message}
        </p>
      ))}
      {children}
      {refused && (
        <p class="faint">
          <code>{refused.code}</code> · request <code>{refused.requestId}</code>
        </p>
      )}
      {isStale ? (
        <button type="button" onClick={() => location.reload()}>
          Reload the page
        </button>
      ) : (
        onRetry && (
          <button type="button" onClick={onRetry}>
            Try again
          </button>
        )
      )}
    </div>
  );
}

/** Above what is asked for again and again: that it could not be the last time, and of when what is shown is. */
export const Outdated = ({
  of: { error, at, ...of },
}: {
  readonly of: Pick<Loaded<unknown>, 'error' | 'at' | 'reload'> | Pick<Pages<unknown>, 'error' | 'at' | 'retry'>;
}): JSX.Element | undefined =>
  error === undefined ? undefined : (
    <Failure error={error} onRetry={'retry' in of ? of.retry : of.reload}>
      {at !== undefined && (
        <p>
          What is shown is of <Time at={at.toISOString()} />.
        </p>
      )}
    </Failure>
  );

export const Loading = (): JSX.Element => (
  <p class="faint loading" role="status">
    Loading…
  </p>
);

/** In the viewer's zone; the exact value is in its title. */
export const Time = ({ at }: { readonly at: string }): JSX.Element => (
  <time dateTime={at} title={at}>
    {timeOf(at)}
  </time>
);

export const Badge = ({
  kind = 'plain',
  children,
}: Children & { readonly kind?: 'plain' | 'good' | 'bad' | 'busy' }): JSX.Element => (
  <span class={`badge ${kind}`}>{children}</span>
);

export function Command({ text }: { readonly text: string }): JSX.Element {
  const [words, setWords] = useState('Copy');
  // Pages that come over plain HTTP from another machine are given no clipboard.
  const copy = (): void => {
    const { clipboard } = navigator as { readonly clipboard?: Clipboard };
    if (clipboard === undefined) setWords('Select it, and copy');
    else
      clipboard.writeText(text).then(
        () => setWords('Copied'),
        () => setWords('Select it, and copy'),
      );
  };
  return (
    <div class="command">
      <pre tabIndex={0}>{text}</pre>
      <button type="button" onClick={copy}>
        {words}
      </button>
    </div>
  );
}
