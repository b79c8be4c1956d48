import { isRefused } from '@statefold/client';
import type { ComponentChildren, JSX } from 'preact';
import { useCallback, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Link, Route, Router, Switch, useLocation } from 'wouter-preact';
import { decoded, useWrittenPath, useWrittenSearch } from './address';
import { hasDrafts } from './drafts';
import { objectsOf } from './objects';
import { NoticesContext, type Notice } from './notices';
import { setSingleKeys, singleKeys, useKeys } from './single-keys';
import { AggregatePage } from './pages/aggregate';
import { AggregateTypePage } from './pages/aggregate-type';
import { AggregatesPage } from './pages/aggregates';
import { AuditPage } from './pages/audit';
import { CodePage } from './pages/code';
import { EventTypePage } from './pages/event-type';
import { EventTypesPage } from './pages/event-types';
import { FeedPage } from './pages/feed';
import { HomePage } from './pages/home';
import { OperationsPage } from './pages/operations';
import { ProjectionPage } from './pages/projection';
import { ProjectionsPage } from './pages/projections';
import { ReducersPage } from './pages/reducers';
import { SignInPage } from './pages/sign-in';
import { SqlAccountsPage } from './pages/sql-accounts';
import { SqlPage } from './pages/sql';
import { TenantsPage } from './pages/tenants';
import { WebhookPage } from './pages/webhook';
import { WebhooksPage } from './pages/webhooks';
import { forgetKey, keptKey, SessionContext, signIn, type Scope, type Session } from './session';
import { applyTheme, chosenTheme, nextTheme } from './theme';
import { Confirm, SecretsContext, ShownOnce, type Secret } from './ui/dialogs';
import { NoticeList } from './ui/notices';
import { Palette, type Deed } from './ui/palette';
import { Empty, Failure, Loading, Page } from './ui/parts';

interface Place {
  readonly path: string;
  readonly name: string;
  readonly keys: string;
  readonly scope?: Scope;
  /** What the service has not of what it shows, as far as the session can tell: it is closed then. */
  readonly lacking?: (session: Session) => Lacking | undefined;
  readonly page: () => JSX.Element;
  /** Of one of them, by the path that its id stands behind. */
  readonly ones?: Readonly<Record<string, (props: { readonly id: string }) => JSX.Element>>;
}

interface Lacking {
  readonly title: string;
  readonly why: JSX.Element;
}

const NO_READ_STORE: Lacking = {
  title: 'The service runs without a read store',
  why: (
    <p>
      Events and states are not copied to where SQL would find them: <code>READ_STORE</code> is <code>none</code>. The
      owner of the service sets it.
    </p>
  ),
};
const NO_SQL_ACCOUNTS: Lacking = {
  title: 'The service does not have this',
  why: (
    <p>
      Accounts for SQL are users of a ClickHouse server. The service keeps its rows without one: statements are run on
      the page of SQL, and by <code>POST /sql</code>.
    </p>
  ),
};
const withoutReadStore = ({ hasReadStore }: Session): Lacking | undefined => (hasReadStore ? undefined : NO_READ_STORE);

const OF_TENANT: readonly Place[] = [
  { path: '/', name: 'Overview', keys: 'g o', page: HomePage },
  {
    path: '/aggregates',
    name: 'Aggregates',
    keys: 'g a',
    scope: 'read',
    page: AggregatesPage,
    ones: { '/aggregates': AggregatePage, '/types': AggregateTypePage },
  },
  {
    path: '/projections',
    name: 'Projections',
    keys: 'g p',
    scope: 'read',
    page: ProjectionsPage,
    ones: { '/projections': ProjectionPage },
  },
  { path: '/reducers', name: 'Reducers', keys: 'g r', scope: 'read', page: ReducersPage },
  {
    path: '/event-types',
    name: 'Event types',
    keys: 'g e',
    scope: 'read',
    page: EventTypesPage,
    ones: { '/event-types': EventTypePage },
  },
  { path: '/feed', name: 'Feed', keys: 'g f', scope: 'read', page: FeedPage },
  { path: '/code', name: 'Code', keys: 'g c', scope: 'deploy', page: CodePage },
  { path: '/sql', name: 'SQL', keys: 'g s', scope: 'sql', lacking: withoutReadStore, page: SqlPage },
  {
    path: '/sql-accounts',
    name: 'SQL accounts',
    keys: 'g b',
    scope: 'sql',
    lacking: (session) =>
      withoutReadStore(session) ?? (session.may('sql') && !session.hasSqlAccounts ? NO_SQL_ACCOUNTS : undefined),
    page: SqlAccountsPage,
  },
  {
    path: '/webhooks',
    name: 'Webhooks',
    keys: 'g w',
    scope: 'webhooks',
    page: WebhooksPage,
    ones: { '/webhooks': WebhookPage },
  },
  { path: '/audit', name: 'Audit log', keys: 'g l', scope: 'audit', page: AuditPage },
];
const OF_ADMIN: readonly Place[] = [
  { path: '/', name: 'Tenants', keys: 'g t', page: TenantsPage },
  { path: '/operations', name: 'Operations', keys: 'g o', page: OperationsPage },
  { path: '/audit', name: 'Audit log', keys: 'g l', page: AuditPage },
];

const LOST = 'The key that this tab was signed in with is refused now: it was revoked, or has expired.';

export function App(): JSX.Element {
  const [session, setSession] = useState<Session>();
  const [isKnown, setKnown] = useState(() => keptKey() === undefined);
  const [error, setError] = useState<unknown>();
  const [why, setWhy] = useState<string>();
  const leave = (reason?: string): void => {
    forgetKey();
    setSession(undefined);
    setError(undefined);
    setKnown(true);
    setWhy(reason);
  };
  const enter = async (key: string, kind?: Session['kind']): Promise<void> => {
    setSession(await signIn(key, { ...(kind && { kind }), onLost: () => leave(LOST) }));
    setWhy(undefined);
    setKnown(true);
  };
  const resume = (): void => {
    const kept = keptKey();
    if (kept === undefined) return;
    setError(undefined);
    enter(kept.key, kept.kind).catch((failed: unknown) =>
      isRefused(failed, 'UNAUTHENTICATED') ? leave(LOST) : setError(failed),
    );
  };
  useEffect(resume, []);
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent): void => {
      if (hasDrafts()) event.preventDefault();
    };
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, []);
  if (error !== undefined)
    return (
      <main class="alone">
        <div>
          <Failure error={error} onRetry={resume} />
          <button type="button" onClick={() => leave()}>
            Sign in with another key
          </button>
        </div>
      </main>
    );
  if (!isKnown)
    return (
      <main class="alone">
        <Loading />
      </main>
    );
  if (session === undefined) return <SignInPage why={why} enter={enter} />;
  return (
    <SessionContext.Provider value={session}>
      <Router base="/console" hook={useWrittenPath} searchHook={useWrittenSearch}>
        <Shell session={session} onLeave={leave} />
      </Router>
    </SessionContext.Provider>
  );
}

function Shell({ session, onLeave }: { readonly session: Session; readonly onLeave: () => void }): JSX.Element {
  const [path, go] = useLocation();
  const [theme, setTheme] = useState(chosenTheme);
  const [hasPalette, setPalette] = useState(false);
  const [hasKeys, setKeys] = useState(singleKeys);
  const all = session.kind === 'admin' ? OF_ADMIN : OF_TENANT;
  const places = all.filter((place) => isOpen(place, session));
  const { drafts } = session;
  const [isLeaving, setLeaving] = useState(false);
  const leave = (): void => (drafts.size > 0 ? setLeaving(true) : onLeave());
  const [notices, setNotices] = useState<readonly Notice[]>([]);
  const told = useMemo(() => ({ tell: (one: Notice) => setNotices((before) => [...before, one]) }), []);
  const [secrets, setSecrets] = useState<readonly Secret[]>([]);
  const keepSecret = useCallback((one: Secret) => setSecrets((before) => [...before, one]), []);
  const turn = (): void => {
    const next = nextTheme(theme);
    applyTheme(next);
    setTheme(next);
  };
  const deeds: readonly Deed[] = [
    ...places.map(({ path, name, keys }) => ({ name: `Go to ${name}`, keys, run: () => go(path) })),
    { name: 'Switch the theme', keys: 't', run: turn },
    {
      name: hasKeys ? 'Turn keys without Ctrl off' : 'Turn keys without Ctrl on',
      run: () => setKeys(setSingleKeys(!hasKeys)),
    },
    { name: 'Sign out', run: leave },
  ];
  useKeys(hasKeys ? deeds : [], hasKeys, () => setPalette(true));
  const main = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    // Whoever goes by keys, or is told the page, goes on where the new one begins.
    if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true });
  }, [path]);
  return (
    <NoticesContext.Provider value={told}>
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
              Theme: {theme}
            </button>
            <button type="button" onClick={leave}>
              Sign out
            </button>
          </div>
        </nav>
        <main id="main" tabIndex={-1} ref={main}>
          <NoticeList
            notices={notices}
            onClose={(one) => setNotices((before) => before.filter((other) => other !== one))}
          />
          <SecretsContext.Provider value={keepSecret}>
            <Guarded key={path}>
              <Switch>
                {all.flatMap((place) => {
                  const { path: at, page: All, ones = {} } = place;
                  const guarded = (page: JSX.Element): JSX.Element =>
                    isOpen(place, session) ? page : <Closed place={place} session={session} />;
                  return [
                    <Route key={at} path={at}>
                      {guarded(<All />)}
                    </Route>,
                    ...Object.entries(ones).map(([of, One]) => (
                      <Route key={`${of} one`} path={`${of}/:id`}>
                        {({ id }) => guarded(<One key={id} id={decoded(id)} />)}
                      </Route>
                    )),
                  ];
                })}
                <Route>
                  <Missing kind={session.kind} path={path} />
                </Route>
              </Switch>
            </Guarded>
          </SecretsContext.Provider>
        </main>
        {secrets[0] !== undefined && (
          <ShownOnce key={secrets[0].value} {...secrets[0]} onClose={() => setSecrets((before) => before.slice(1))} />
        )}
        {hasPalette && (
          <Palette
            deeds={deeds}
            objects={(signal) => objectsOf(session, signal)}
            onObject={go}
            onClose={() => setPalette(false)}
            onId={session.may('read') ? (id) => go(`/aggregates/${encodeURIComponent(id)}`) : undefined}
          />
        )}
        {isLeaving && (
          <Confirm
            title="Sign out, and lose what was written?"
            deed="Sign out"
            onClose={() => setLeaving(false)}
            run={() => {
              drafts.clear();
              onLeave();
              return Promise.resolve();
            }}
          >
            <p>What was written in this tab and neither deployed, saved nor run is kept nowhere else.</p>
            <ul>
              {[...drafts].map(([of, { sources }]) => (
                <li key={of}>{Object.keys(sources).join(', ')}</li>
              ))}
            </ul>
          </Confirm>
        )}
      </div>
    </NoticesContext.Provider>
  );
}

const isOpen = ({ scope, lacking }: Place, session: Session): boolean =>
  (scope === undefined || session.may(scope)) && lacking?.(session) === undefined;

/** What a page can't show leaves the way to the other pages open. */
function Guarded({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const [error, reset] = useErrorBoundary() as [unknown, () => void];
  useLayoutEffect(() => {
    // As it would be without a boundary: the browser's tools show it.
    if (error !== undefined) reportError(error);
  }, [error]);
  if (error === undefined) return <>{children}</>;
  return (
    <Page title="This page can’t be shown">
      <Failure error={error} onRetry={reset} />
    </Page>
  );
}

function Tab({ place: { path, name, ones = {} } }: { readonly place: Place }): JSX.Element {
  const [at] = useLocation();
  const isHere = at === path || Object.keys(ones).some((of) => at.startsWith(`${of}/`));
  return (
    <li>
      <Link href={path} aria-current={isHere ? 'page' : undefined}>
        {name}
      </Link>
    </li>
  );
}

function Closed({
  place: { name, scope, lacking },
  session,
}: {
  readonly place: Place;
  readonly session: Session;
}): JSX.Element {
  const lack = lacking?.(session);
  return (
    <Page title={name}>
      {lack === undefined ? (
        <Empty title={`Your key may not do this: its scopes leave out “${scope}”`}>
          <p>Sign out, and in again with a key that has it. The owner of the service makes keys.</p>
        </Empty>
      ) : (
        <Empty title={lack.title}>{lack.why}</Empty>
      )}
    </Page>
  );
}

function Missing({ kind, path }: { readonly kind: Session['kind']; readonly path: string }): JSX.Element {
  const others = kind === 'admin' ? OF_TENANT : OF_ADMIN;
  const isOfOthers = others.some(
    (place) => path === place.path || Object.keys(place.ones ?? {}).some((of) => path.startsWith(`${of}/`)),
  );
  return (
    <Page title="There is no such page">
      {isOfOthers ? (
        <Empty title={kind === 'admin' ? 'The page is a tenant’s' : 'The page is the owner’s'}>
          <p>
            {kind === 'admin'
              ? 'You are signed in with the admin key. Sign out, and in again with a key of the tenant.'
              : 'You are signed in with a key of a tenant. Sign out, and in again with the admin key.'}
          </p>
        </Empty>
      ) : (
        <Empty title="The address names no page of the console">
          <p>
            <Link href="/">Go to the overview</Link>
          </p>
        </Empty>
      )}
    </Page>
  );
}
