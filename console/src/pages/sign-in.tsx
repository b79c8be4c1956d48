import { isRefused } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { signIn, type Session } from '../session';
import { Failure } from '../ui/parts';

export function SignInPage({ onSignedIn }: { readonly onSignedIn: (session: Session) => void }): JSX.Element {
  const [key, setKey] = useState('');
  const [error, setError] = useState<unknown>();
  const [isAsking, setAsking] = useState(false);
  const ask = (event: Event): void => {
    event.preventDefault();
    setAsking(true);
    setError(undefined);
    signIn(key.trim())
      .then(onSignedIn, setError)
      .finally(() => setAsking(false));
  };
  return (
    <main class="alone">
      <form onSubmit={ask}>
        <h1>Statefold</h1>
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
        <button type="submit" class="primary" disabled={isAsking}>
          {isAsking ? 'Asking…' : 'Sign in'}
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
