import { isRefused } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link, Route, Router, Switch, useLocation, useRoute } from 'wouter-preact';
import { AggregatePage } from './pages/aggregate';
import { AggregatesPage } from './pages/aggregates';
import { CodePage } from './pages/code';
import { FeedPage } from './pages/feed';
import { HomePage } from './pages/home';
import { OperationsPage } from './pages/operations';
import { ProjectionPage, ProjectionsPage } from './pages/projections';
import { SignInPage } from './pages/sign-in';
import { SqlPage } from './pages/sql';
import { TenantsPage } from './pages/tenants';
import { WebhookPage } from './pages/webhook';
import { WebhooksPage } from './pages/webhooks';
import { forgetKey, keptKey, SessionContext, signIn, type Scope, type Session } from './session';
import { applyTheme, chosenTheme, nextTheme } from './theme';
import { Palette, type Deed } from './ui/palette';
import { Empty, Failure, Loading, Page } from './ui/parts';

interface Place {
  readonly path: string;
  readonly name: string;
  readonly keys: string;
  readonly scope?: Scope;
}

const OF_TENANT: readonly Place[] = [
  { path: '/', name: 'Overview', keys: 'g o' },
  { path: '/aggregates', name: 'Aggregates', keys: 'g a', scope: 'read' },
  { path: '/projections', name: 'Projections', keys: 'g p', scope: 'read' },
  { path: '/feed', name: 'Feed', keys: 'g f', scope: 'read' },
  { path: '/code', name: 'Code', keys: 'g c', scope: 'deploy' },
  { path: '/sql', name: 'SQL', keys: 'g s', scope: 'sql' },
  { path: '/webhooks', name: 'Webhooks', keys: 'g w', scope: 'webhooks' },
];
const OF_ADMIN: readonly Place[] = [
  { path: '/', name: 'Tenants', keys: 'g t' },
  { path: '/operations', name: 'Operations', keys: 'g o' },
];

export function App(): JSX.Element {
  const [session, setSession] = useState<Session>();
  const [isKnown, setKnown] = useState(() => keptKey() === undefined);
  const [error, setError] = useState<unknown>();
  const resume = (): void => {
    const kept = keptKey();
    if (kept === undefined) return;
    setError(undefined);
    signIn(kept.key, kept.kind).then(
      (resumed) => {
        setSession(resumed);
        setKnown(true);
      },
      (failed: unknown) => {
        if (isRefused(failed, 'UNAUTHENTICATED')) {
          forgetKey();
          setKnown(true);
        } else setError(failed);
      },
    );
  };
  useEffect(resume, []);
  const leave = (): void => {
    forgetKey();
    setSession(undefined);
  };
  if (error !== undefined)
    return (
      <main class="alone">
        <Failure error={error} onRetry={resume} />
      </main>
    );
  if (!isKnown)
    return (
      <main class="alone">
        <Loading />
      </main>
    );
  if (session === undefined) return <SignInPage onSignedIn={setSession} />;
  return (
    <SessionContext.Provider value={session}>
      <Router base="/console">
        <Shell session={session} onLeave={leave} />
      </Router>
    </SessionContext.Provider>
  );
}

function Shell({ session, onLeave }: { readonly session: Session; readonly onLeave: () => void }): JSX.Element {
  const [, go] = useLocation();
  const [theme, setTheme] = useState(chosenTheme);
  const [hasPalette, setPalette] = useState(false);
  const all = session.kind === 'admin' ? OF_ADMIN : OF_TENANT;
  const places = all.filter(({ scope }) => scope === undefined || session.may(scope));
  const turn = (): void => {
    const next = nextTheme(theme);
    applyTheme(next);
    setTheme(next);
  };
  const deeds: readonly Deed[] = [
    ...places.map(({ path, name, keys }) => ({ name: `Go to ${name}`, keys, run: () => go(path) })),
    { name: 'Turn the colours', keys: 't', run: turn },
    { name: 'Sign out', run: onLeave },
  ];
  useKeys(deeds, () => setPalette(true));
  return (
    <div class="shell">
      <a class="skip" href="#main">
        To the content
      </a>
      <nav aria-label="Pages">
        <div class="brand">
          <strong>Statefold</strong>
          <span class="tenant" title={session.keyName}>
            {session.name}
          </span>
        </div>
        <ul>
          {places.map((place) => (
            <Tab key={place.path} place={place} />
          ))}
        </ul>
        <div class="foot">
          <button type="button" onClick={() => setPalette(true)}>
            Commands <kbd>Ctrl K</kbd>
          </button>
          <button type="button" onClick={turn}>
            Colours: {theme}
          </button>
          <button type="button" onClick={onLeave}>
            Sign out
          </button>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        {session.kind === 'admin' ? (
          <Switch>
            <Route path="/">
              <TenantsPage />
            </Route>
            <Route path="/operations">
              <OperationsPage />
            </Route>
            <Route>
              <Missing />
            </Route>
          </Switch>
        ) : (
          <Switch>
            <Route path="/">
              <HomePage />
            </Route>
            <Route path="/aggregates">
              <AggregatesPage />
            </Route>
            <Route path="/aggregates/:id">{({ id }) => <AggregatePage key={id} id={decodeURIComponent(id)} />}</Route>
            <Route path="/projections">
              <ProjectionsPage />
            </Route>
            <Route path="/projections/:id">{({ id }) => <ProjectionPage key={id} id={decodeURIComponent(id)} />}</Route>
            <Route path="/feed">
              <FeedPage />
            </Route>
            <Route path="/code">
              <CodePage />
            </Route>
            <Route path="/sql">
              <SqlPage />
            </Route>
            <Route path="/webhooks">
              <WebhooksPage />
            </Route>
            <Route path="/webhooks/:id">{({ id }) => <WebhookPage key={id} id={decodeURIComponent(id)} />}</Route>
            <Route>
              <Missing />
            </Route>
          </Switch>
        )}
      </main>
      {hasPalette && (
        <Palette
          deeds={deeds}
          onClose={() => setPalette(false)}
          onId={session.may('read') ? (id) => go(`/aggregates/${encodeURIComponent(id)}`) : undefined}
        />
      )}
    </div>
  );
}

function Tab({ place: { path, name } }: { readonly place: Place }): JSX.Element {
  const [isExact] = useRoute(path);
  const [isBelow] = useRoute(`${path === '/' ? '' : path}/:id`);
  const isHere = isExact || (path !== '/' && isBelow);
  return (
    <li>
      <Link href={path} aria-current={isHere ? 'page' : undefined}>
        {name}
      </Link>
    </li>
  );
}

const Missing = (): JSX.Element => (
  <Page title="There is no such page">
    <Empty title="The address names no page of the console">
      <p>
        It may be one that your key shows no more. <Link href="/">Go to the overview</Link>.
      </p>
    </Empty>
  </Page>
);

/** Keys of the deeds, alone or one behind the other; not while something is written. */
function useKeys(deeds: readonly Deed[], onPalette: () => void): void {
  useEffect(() => {
    let before = '';
    const onKeyDown = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        onPalette();
        return;
      }
      // Within a shadow tree, where the editor is, too.
      const [target] = event.composedPath();
      const writes = target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
      if (writes || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (event.key === '/') {
        const search = document.querySelector<HTMLInputElement>('input[type=search]');
        if (search !== null) event.preventDefault();
        search?.focus();
        return;
      }
      const deed =
        deeds.find(({ keys }) => keys === `${before} ${event.key}`) ?? deeds.find(({ keys }) => keys === event.key);
      before = deed === undefined ? event.key : '';
      deed?.run();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  });
}
