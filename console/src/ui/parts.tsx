import { isClientError, RefusedError } from '@statefold/client';
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { timeOf } from '../words';

type Children = { readonly children?: ComponentChildren };

export function Page({
  title,
  aside,
  children,
}: Children & { readonly title: string; readonly aside?: ComponentChildren }): JSX.Element {
  return (
    <>
      <header class="page-head">
        <h1>{title}</h1>
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

/** What went wrong, in the service's own words, with what its people ask for: the code and the id of the request. */
export function Failure({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }): JSX.Element {
  const refused = error instanceof RefusedError ? error.problem : undefined;
  const text = isClientError(error) || error instanceof Error ? error.message : String(error);
  return (
    <div class="failure" role="alert">
      <p>{text}</p>
      {refused && (
        <p class="faint">
          <code>{refused.code}</code> · request <code>{refused.requestId}</code>
        </p>
      )}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

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
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => void navigator.clipboard.writeText(text).then(() => setCopied(true));
  return (
    <div class="command">
      <pre tabIndex={0}>{text}</pre>
      <button type="button" onClick={copy}>
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  );
}

export const Json = ({ value, label }: { readonly value: unknown; readonly label: string }): JSX.Element => (
  <pre class="json" tabIndex={0} role="region" aria-label={label}>
    {JSON.stringify(value, null, 2)}
  </pre>
);
