import { isRefused } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { Failure } from '../ui/parts';

/** What keys may consist of: quotes and dashes that a text program put in are none of it. */
const OF_A_KEY = /^[\x21-\x7e]+$/;

/** `why`: what ended the session before. */
export function SignInPage({
  why,
  enter,
}: {
  readonly why: string | undefined;
  readonly enter: (key: string) => Promise<void>;
}): JSX.Element {
  const [key, setKey] = useState('');
  const { busy, error, run } = useDeeds();
  useEffect(() => {
    document.title = 'Sign in – Statefold';
  }, []);
  const ask = (event: Event): void => {
    event.preventDefault();
    run('sign in', async () => {
      const written = key.trim();
      if (!OF_A_KEY.test(written))
        throw new Error(
          'This is no key: it has characters that no key has, as spaces or “curly” quotes. Copy it again.',
        );
      await enter(written);
    });
  };
  return (
    <main class="alone">
      <form onSubmit={ask}>
        <h1>Statefold</h1>
        {why !== undefined && error === undefined && (
          <p class="failure" role="alert">
            {why}
          </p>
        )}
        <label for="key">Key of a tenant, or the admin key</label>
        <input
          id="key"
          type="password"
          autoComplete="off"
          autoFocus
          required
          placeholder="sf_…"
          value={key}
          onInput={({ currentTarget }) => setKey(currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={busy !== undefined}>
          {busy === undefined ? 'Sign in' : 'Asking…'}
        </button>
        {isRefused(error, 'UNAUTHENTICATED') ? (
          <p class="failure" role="alert">
            The service knows no such key, neither of a tenant nor of its owner. It may have been revoked, or have
            expired.
          </p>
        ) : (
          error !== undefined && <Failure error={error} />
        )}
        <p class="faint">
          The key stays in this tab, and is gone when the tab is closed. The first start of the service prints a key of
          the tenant <code>default</code>; <code>npx statefold keys create default</code> makes another.
        </p>
      </form>
    </main>
  );
}
