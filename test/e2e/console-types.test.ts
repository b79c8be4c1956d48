// Pages of what makes the states of aggregates: types and what is bound to them, reducers, and types of events with their schemas.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, newTenant, problem, success } from '../support/api.js';
import { needsChromium, openChromium } from '../support/chromium.js';
import { assertAccessible, opened, written } from '../support/console.js';
import { corrupt } from '../support/corrupt.js';
import { crashing, tally } from '../support/csharp.js';
import { API_KEY, AS_ADMIN, startService, temporaryDirectory, until } from '../support/service.js';

const env = {
  ARTEFACT_STRIKES: '3',
  RUNNER_EVENT_DEADLINE_MS: '30000',
  RUNNER_BATCH_DEADLINE_MS: '60000',
  FOLD_DEADLINE_MS: '60000',
};
const ODD = '100%/a b?c=d#e';
const LABEL = 'JSON Schema of Landed';
/** Takes long over each event, so that a catch-up is seen. */
const SLOW = tally('slow', 1, 'Slow')
  .replace(
    '_ => new((state?.Count ?? 0) + 1, e.Version, e.EventType),',
    '_ => new((state?.Count ?? 0) + 1, Work(e.Version), e.EventType),',
  )
  .replace(
    'private static SlowState? Hang()',
    `private static long Work(long seed)
    {
        for (var i = 0; i < 100_000_000; i++) seed = seed * 31 + i;
        return seed;
    }

    private static SlowState? Hang()`,
  );
/** Types past what the service lists at once. */
const MANY = 600;

test('the console and what makes the states of aggregates', { skip: needsChromium }, async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { env, dataDirectory });
  let api = new Api(service);
  const browser = await openChromium(t);
  const first = await api.deployReducer({ 'Tally.cs': tally('trip') });
  for (const id of ['trip-1', 'trip-2', 'trip-3']) await api.append(id, 'Boom');
  for (const id of ['trip-1', 'trip-4']) await api.append(id, 'Landed', { delay: 12 });
  const stateOf = async (id: string): Promise<{ count: number } | null> =>
    (await api.read<{ state: { count: number } | null }>(`/aggregate-types/trip/${id}/state`)).state;

  await t.test('a type says what is bound and where it stopped; aggregates are retried and skipped', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/aggregates?type=trip' });
    await page.getByRole('link', { name: 'What makes the states of trip' }).click();
    await page.getByRole('heading', { name: 'trip', level: 1 }).waitFor();
    await page.getByText('Tests.Tally makes its states').waitFor();
    await page.getByRole('link', { name: '4 aggregates' }).waitFor();
    await page.getByRole('heading', { name: '3 aggregates stopped at an event' }).waitFor();
    assert.equal(
      await page.getByRole('link', { name: 'Aggregates', exact: true }).getAttribute('aria-current'),
      'page',
    );
    const faults = page.getByRole('region', { name: 'Faults' });
    const faultOf = (id: string): ReturnType<typeof page.getByRole> =>
      faults.getByRole('listitem').filter({ hasText: id });
    await faultOf('trip-1').getByText('Tally.cs:9 · Boom, version 1').waitFor();
    await assertAccessible(page);

    let retries = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/retry')) retries++;
    });
    await faultOf('trip-1').getByRole('button', { name: 'Retry' }).dblclick();
    await page.getByText('trip-1: It was stopped again.').waitFor();
    assert.equal(retries, 1);
    await page.getByText('3 aggregates stopped', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Retry all' }).dblclick();
    await page.getByText('0 aggregates released, 3 aggregates stopped again').waitFor();
    assert.equal(retries, 4);
    await faultOf('trip-1').getByRole('button', { name: 'Skip the event' }).click();
    await assertAccessible(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Skip it' }).click();
    await page.getByText('trip-1: It goes on.').waitFor();
    await page.getByRole('heading', { name: '2 aggregates stopped at an event' }).waitFor();
    await faultOf('trip-1').waitFor({ state: 'detached' });
    assert.equal((await stateOf('trip-1'))?.count, 1);

    await faultOf('trip-2').getByRole('link', { name: 'Boom, version 1' }).click();
    await page.waitForURL(/aggregates\/trip-2\?version=1$/);
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.getByText('It was stopped again.').waitFor();
    await page.getByRole('button', { name: 'Skip the event' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Skip it' }).click();
    await page.getByText('It goes on.').waitFor();
    await page.getByRole('link', { name: 'trip', exact: true }).click();
    await page.getByRole('heading', { name: '1 aggregate stopped at an event' }).waitFor();
    await page.setViewportSize({ width: 380, height: 800 });
    await assertAccessible(page);
    for (const id of ['trip-5', 'trip-6']) await api.append(id, 'Boom');
    await page.getByRole('heading', { name: '3 aggregates stopped at an event' }).waitFor();
    await page.getByRole('button', { name: 'Skip all' }).click();
    await assertAccessible(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Skip them' }).click();
    await page.getByText('3 aggregates released').waitFor();
    await page.getByText('bound', { exact: true }).first().waitFor();
    await api.append('trip-3', 'Boom');
  });

  await t.test('an aggregate is erased by who types its id, and says so whoever comes after', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/aggregates/trip-3', refusals: [410] });
    await page.getByRole('button', { name: 'Erase' }).click();
    await page.getByLabel(/^Type/).fill('trip-3');
    await page.getByRole('dialog').getByRole('button', { name: 'Erase' }).click();
    await page.getByRole('heading', { name: 'The aggregate was erased' }).waitFor();
    problem(await api.get('/events/trip-3'), 410, 'GONE');
    await page.goto(`${service.url}/console/aggregates/trip-3?version=1`);
    await page.getByRole('heading', { name: 'The aggregate was erased' }).waitFor();
    await page.goto(`${service.url}/console/types/trip`);
    await page.getByText('Tests.Tally makes its states').waitFor();
    assert.equal(await page.getByRole('region', { name: 'Faults' }).count(), 0);
  });

  await t.test('another class is bound, and a former one again; and one to a type that had none', async (t) => {
    const second = await api.deployReducer({ 'Tally.cs': tally('trip', 10) });
    await api.append('ship-1', 'Sailed');
    const ofOther = await api.deployReducer({ 'Any.cs': tally('any', 2, 'Any') });
    const page = await opened(t, browser, service, { path: '/console/types/trip' });
    const bindings = page.getByRole('region', { name: 'Bindings' });
    const inDialog = page.getByRole('dialog').getByRole('button', { name: 'Bind it' });
    const bound = (generation: number): Promise<void> =>
      bindings
        .getByRole('listitem')
        .filter({ hasText: `${generation} Tests.Tally bound` })
        .waitFor();
    await bound(2);
    assert.equal((await stateOf('trip-4'))?.count, 10);
    await bindings.getByRole('button', { name: 'Bind 1 again' }).click();
    await assertAccessible(page);
    await inDialog.click();
    await bound(3);
    assert.equal((await api.read<{ reducerId: string }>('/aggregate-types/trip')).reducerId, first);
    await until(async () => (await stateOf('trip-4'))?.count === 1);

    await bindings.getByRole('combobox', { name: 'Another class' }).selectOption(`${second} Tests.Tally`);
    await bindings.getByRole('button', { name: 'Bind', exact: true }).click();
    await inDialog.click();
    await bound(4);
    await until(async () => (await stateOf('trip-4'))?.count === 10);

    await page.goto(`${service.url}/console/reducers?id=${ofOther}`);
    const detail = page.getByRole('region', { name: 'The reducer' });
    await detail.getByText(/^Tests\.Any to any/).waitFor();
    await assertAccessible(page);
    await page.goto(`${service.url}/console/types/ship`);
    await page.getByText('No reducer is bound to the type').waitFor();
    await assertAccessible(page);
    await bindings.getByRole('combobox', { name: 'Another class' }).selectOption(`${ofOther} Tests.Any`);
    await bindings.getByRole('button', { name: 'Bind', exact: true }).click();
    await inDialog.click();
    await page.getByText('Tests.Any makes its states').waitFor();
    await page.goto(`${service.url}/console/aggregates/ship-1`);
    await page.getByRole('region', { name: 'State after' }).getByText('"count": 2').waitFor();
  });

  await t.test('an aggregate that is open shows the state by whatever code is bound meanwhile', async (t) => {
    await api.append('boat-1', 'Sailed');
    const page = await opened(t, browser, service, { path: '/console/aggregates/boat-1' });
    await page.getByText('No reducer is bound to the type').waitFor();
    await api.deployReducer({ 'Tally.cs': tally('boat') });
    const after = page.getByRole('region', { name: 'State after' });
    await after.getByText('"count": 1').waitFor();
    await api.deployReducer({ 'Tally.cs': tally('boat', 10) });
    await after.getByText('"count": 10').waitFor();
  });

  await t.test(
    'a reducer that was halted is revived; one that does not compile says why, and is deleted',
    async (t) => {
      const reducerId = await api.deployReducer({ 'Shaky.cs': crashing('shaky', 'Shaky') });
      for (const n of [1, 2, 3]) await api.post('/events', { aggregateId: `shaky-${n}`, eventType: 'Hang', data: {} });
      const status = (id: string): Promise<{ faulted?: object }> => api.read(`/reducers/${id}/status`);
      await until(async () => (await status(reducerId)).faulted !== undefined);
      const broken = success(await api.upload('reducers', { 'Broken.cs': 'no code' }), 202).json<{
        reducerId: string;
      }>();
      await api.compiled('reducers', broken.reducerId);

      const page = await opened(t, browser, service, { path: '/console' });
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      await page.keyboard.press('g');
      await page.keyboard.press('r');
      await page.getByRole('row', { name: /^Tests\.Shaky stopped shaky/ }).click();
      await page.waitForURL(new RegExp(`id=${reducerId}$`));
      const detail = page.getByRole('region', { name: 'The reducer' });
      await detail
        .getByRole('alert')
        .getByText(/after 3 strikes.*stack overflow/)
        .waitFor();
      await assertAccessible(page);
      assert.equal(await detail.getByRole('button', { name: 'Delete' }).count(), 0);
      await page.goto(`${service.url}/console/types/shaky`);
      await page
        .getByRole('alert')
        .getByText(/after 3 strikes/)
        .waitFor();
      await assertAccessible(page);
      await page.goBack();
      await detail.getByRole('button', { name: 'Let it run again' }).click();
      await detail.getByRole('alert').waitFor({ state: 'detached' });
      assert.equal((await status(reducerId)).faulted, undefined);
      await detail.getByRole('link', { name: 'Change the code' }).click();
      await page.getByRole('button', { name: 'Shaky.cs', exact: true }).waitFor();

      await page.goto(`${service.url}/console/reducers?id=${broken.reducerId}`);
      await detail
        .getByRole('region', { name: 'What the compiler says' })
        .getByText(/error CS/)
        .first()
        .waitFor();
      await page.setViewportSize({ width: 380, height: 800 });
      await assertAccessible(page);
      await detail.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('row', { name: /not compiled/ }).waitFor({ state: 'detached' });
      problem(await api.get(`/reducers/${broken.reducerId}/status`), 404, 'NOT_FOUND');
      await page.goto(`${service.url}/console/reducers?id=${broken.reducerId}`);
      await page.getByText('it may have been deleted').waitFor();
    },
  );

  await t.test('all types of events are listed, past what the service lists at once', async (t) => {
    const events = Array.from({ length: MANY }, (_, n) => ({ eventType: `Kind${n}`, data: {} }));
    success(await api.post('/events/batch', { aggregateId: 'many-1', events }), 201);
    await api.append('many-1', ODD);
    const page = await opened(t, browser, service);
    const types = page.getByRole('table', { name: 'Types of events' });
    const { eventTypes } = await api.read<{ eventTypes: unknown[] }>('/event-types?limit=1000');
    assert.ok(eventTypes.length > MANY);
    const isWhole = async (): Promise<boolean> =>
      (await types.getAttribute('aria-rowcount')) === String(eventTypes.length + 1);
    await until(isWhole);
    await page.keyboard.press('g');
    await page.keyboard.press('e');
    await page.getByRole('heading', { name: 'Event types' }).waitFor();
    await until(isWhole);
    await assertAccessible(page);
    await page.getByRole('searchbox').fill('kind599');
    await page.getByRole('row', { name: /^Kind599 many 1 none/ }).click();
    await page.waitForURL(/event-types\/Kind599$/);
    await page.goto(`${service.url}/console/feed`);
    await page.getByLabel('Event type').selectOption('Kind599');
    await page.getByRole('row', { name: /Kind599 many-1/ }).waitFor();
    await page.goto(`${service.url}/console/event-types`);
    await page.getByRole('searchbox').fill(ODD);
    await page.getByRole('link', { name: ODD, exact: true }).click();
    await page.reload();
    await page.getByRole('heading', { name: ODD, level: 1 }).waitFor();
    await page.getByText('1 event of aggregates of the type many').waitFor();
  });

  await t.test('of many types of aggregates the largest are a click away, and the others in a list', async (t) => {
    const key = await newTenant(service, { name: 'Many' });
    const many = new Api(service, key);
    for (let n = 0; n < 15; n++) await many.append(`kind${n}-1`, 'Added');
    await many.append('kind14-2', 'Added');
    const page = await opened(t, browser, service, { key, path: '/console/aggregates' });
    const chips = page.getByRole('group', { name: 'Type of aggregates' });
    await chips.getByRole('button', { name: /^kind14 2/ }).waitFor();
    assert.equal(await chips.getByRole('button').count(), 13);
    await chips.getByRole('combobox', { name: 'Others' }).selectOption('kind9');
    await page.waitForURL(/type=kind9$/);
    await until(async () => (await page.getByRole('row').count()) === 2);
    await assertAccessible(page);
    await chips.getByRole('link', { name: 'What makes the states of kind9' }).click();
    await page.getByText('No reducer is bound to the type').waitFor();
  });

  await t.test('where there is nothing, and where nobody answers, the pages say so', async (t) => {
    const key = await newTenant(service, { name: 'Nothing' });
    const page = await opened(t, browser, service, { key, path: '/console/types/none', breaks: true });
    const words = {
      'types/none': 'There is no such type of aggregates',
      reducers: 'There are no reducers',
      'event-types': 'There are no types of events',
    };
    for (const [path, title] of Object.entries(words)) {
      await page.goto(`${service.url}/console/${path}`);
      await page.getByRole('heading', { name: title }).waitFor();
      await assertAccessible(page);
    }
    await page.context().setOffline(true);
    await page.getByRole('alert').getByText('What is shown is of').waitFor();
    await page.context().setOffline(false);
    await page.getByRole('alert').waitFor({ state: 'detached' });
  });

  await t.test('what is not there is asked for once, and again by hand', async (t) => {
    const key = await newTenant(service, { name: 'Looked for' });
    const its = new Api(service, key);
    const page = await opened(t, browser, service, { key, path: '/console', refusals: [404] });
    await page.clock.install();
    let asked: string[] = [];
    page.on('response', (answer) => {
      if (answer.status() === 404) asked.push(new URL(answer.url()).pathname);
    });
    for (const path of ['aggregates/late-1', 'projections/none', 'webhooks/none', 'event-types/Late']) {
      asked = [];
      await page.goto(`${service.url}/console/${path}`);
      await page.getByRole('button', { name: 'Look again' }).waitFor();
      await page.clock.runFor(20_000);
      assert.equal(asked.length, 1, asked.join(' '));
      await page.getByRole('button', { name: 'Look again' }).click();
      await until(() => asked.length === 2);
    }
    await page.getByText('0 events.').waitFor();
    await its.append('late-1', 'Late', {});
    await page.getByRole('button', { name: 'Look again' }).click();
    await page.getByText('1 event of aggregates of the type').waitFor();
    await page.goto(`${service.url}/console/aggregates/late-1`);
    await page.getByText('Version 1 of 1').waitFor();
  });

  await t.test('a schema is tried, refused, saved, changed by another and removed', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/event-types/Landed', refusals: [400, 404] });
    const schema = page.getByRole('region', { name: 'Schema' });
    const button = (name: string): ReturnType<typeof page.getByRole> =>
      schema.getByRole('button', { name, exact: true });
    const stored = async (): Promise<{ schema?: unknown; schemaVersion?: number }> => api.read('/event-types/Landed');
    const atMost = (most: string): string =>
      `{ "type": "object", "properties": { "delay": { "type": "integer", "maximum": ${most} } }, "hints": true }`;
    await page.getByText('2 events of aggregates of the type trip').waitFor();
    await page.getByRole('textbox', { name: LABEL }).waitFor();
    await assertAccessible(page);

    await written(page, LABEL, '{ "type": }');
    await button('Try it').click();
    await schema.getByRole('alert').getByText(/JSON/).waitFor();
    await written(page, LABEL, '{ "type": "sentence" }');
    await button('Save').click();
    await schema.getByRole('alert').getByText('/schema/type', { exact: true }).waitFor();
    assert.equal((await stored()).schema, undefined);

    await written(page, LABEL, atMost('5'));
    await page.keyboard.press('Control+Enter');
    const verdict = page.getByRole('region', { name: 'Stored events' });
    await verdict.getByText('2 events would not fit').waitFor();
    await verdict.getByText('/data/delay').first().waitFor();
    await verdict.getByText('/schema/hints').waitFor();
    await verdict.getByRole('link', { name: 'Version 1 of trip-4' }).waitFor();
    assert.equal((await stored()).schema, undefined);
    await assertAccessible(page);

    await written(page, LABEL, atMost('9007199254740993'));
    await button('Save').dblclick();
    await page.getByText('Version 1 of the schema holds').waitFor();
    await verdict.getByText('all fit').waitFor();
    await page.getByText('schema version 1').waitFor();
    problem(
      await api.post('/events', { aggregateId: 'trip-4', eventType: 'Landed', data: { delay: 'long' } }),
      422,
      'SCHEMA_VIOLATION',
    );

    await written(page, LABEL, atMost('7'));
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.goBack();
    await button('Discard what was changed').waitFor();
    await page.getByText(/"maximum": 7/).waitFor();
    success(await api.put('/event-types/Landed', { schema: { type: 'object', title: 'theirs' } }), 200);
    await page.getByText('Somebody has changed the schema').waitFor();
    await assertAccessible(page);
    await button('Take theirs').click();
    await page.getByText('"title": "theirs"').waitFor();
    await page.getByText('Somebody has changed the schema').waitFor({ state: 'detached' });

    await button('Remove the schema').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('no schema', { exact: true }).waitFor();
    assert.equal((await stored()).schema, undefined);
    await page.setViewportSize({ width: 380, height: 800 });
    await assertAccessible(page);

    await page.goto(`${service.url}/console/event-types`);
    await page.getByRole('searchbox').fill('Not yet');
    await page.keyboard.press('Enter');
    await page.waitForURL(/event-types\/Not%20yet$/);
    await page.getByText('0 events.').waitFor();
    await button('Save').click();
    await page.getByText('Version 1 of the schema holds').waitFor();
  });

  await t.test('a key that only reads is offered none of it', async (t) => {
    const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
    success(await api.put('/event-types/Landed', { schema: { title: 'Landing' } }), 200);
    await api.append('trip-5', 'Boom');
    const made = await service.post(`/admin/tenants/${tenantId}/keys`, { scopes: ['read'] }, AS_ADMIN);
    const { apiKey } = made.json<{ apiKey: string }>();
    const page = await opened(t, browser, service, { key: apiKey, path: '/console/types/trip' });
    const main = page.getByRole('main');
    await page.getByRole('region', { name: 'Faults' }).getByText('trip-5').first().waitFor();
    await page.getByText('4 Tests.Tally').waitFor();
    assert.equal(await main.getByRole('button').count(), 0);
    await page
      .getByRole('listitem')
      .filter({ hasText: 'trip-5' })
      .getByRole('link', { name: 'Boom, version 1' })
      .click();
    await page.getByText('Tally threw at version 1').waitFor();
    assert.equal(await main.getByRole('button').count(), 0);
    await page.goto(`${service.url}/console/event-types/Landed`);
    await page.getByRole('region', { name: 'JSON Schema' }).getByText('"title": "Landing"').waitFor();
    assert.equal(await main.getByRole('button').count(), 0);
    await page.goto(`${service.url}/console/reducers?id=${first}`);
    await page.getByRole('region', { name: 'The reducer' }).getByText('Tests.Tally, of the type').waitFor();
    assert.deepEqual(await main.getByRole('button').allTextContents(), ['Close']);
    await assertAccessible(page);
  });

  await t.test('states are folded again, and what differs is shown', async () => {
    const page = await opened(t, browser, service, { path: '/console/types/trip' });
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByRole('region', { name: 'Verification' }).getByText('all as stored').waitFor();
    await page.context().close();
    // What is folded once more would put it right.
    await until(
      async () =>
        (await api.read<{ catchUp?: { status: string } }>('/aggregate-types/trip')).catchUp?.status === 'done',
    );
    await service.stop();
    await corrupt(dataDirectory, (tables) => {
      const row = tables.reducerState('trip-4');
      assert.ok(row !== undefined);
      tables.setReducerState('trip-4', { ...row, state: Buffer.from('{"count":7,"version":1,"last":"Landed"}') });
    });
    service = await startService(t, { env, dataDirectory });
    api = new Api(service, API_KEY);
    const other = await opened(t, browser, service, { path: '/console/types/trip' });
    await other.getByRole('button', { name: 'Verify' }).click();
    const verdict = other.getByRole('region', { name: 'Verification' });
    await verdict.getByText('not as stored').waitFor();
    await verdict.getByText('trip-4 ').click();
    await verdict.getByRole('region', { name: 'trip-4 stored' }).getByText('"count": 7').waitFor();
    await verdict.getByRole('region', { name: 'trip-4 folded again' }).getByText('"count": 10').waitFor();
    await assertAccessible(other);
    await verdict.getByRole('button', { name: 'Close' }).click();
    await verdict.waitFor({ state: 'detached' });
  });

  await t.test('how far a catch-up is, is shown while it goes on', async (t) => {
    const events = Array.from({ length: 100 }, () => ({ eventType: 'Ticked', data: {} }));
    for (const id of ['slow-1', 'slow-2', 'slow-3'])
      success(await api.post('/events/batch', { aggregateId: id, events }), 201);
    const page = await opened(t, browser, service, { path: '/console/types/slow' });
    await page.getByText('No reducer is bound to the type').waitFor();
    await api.deployReducer({ 'Slow.cs': SLOW });
    await page.getByText('catching up').waitFor();
    await page.getByText(/It catches up: \d+ % of the log/).waitFor();
    await page.getByRole('progressbar', { name: 'Progress of the catch-up' }).waitFor();
    await assertAccessible(page);
  });
});
