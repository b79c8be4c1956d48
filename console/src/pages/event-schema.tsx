import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { useDeeds } from '../deed';
import { parseJson } from '../exact-json';
import type { Mark } from '../lazy/editor';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { CodeBox, type Given } from '../ui/code-box';
import { Confirm } from '../ui/dialogs';
import { Badge, Failure, Time } from '../ui/parts';
import { plural } from '../words';
import type { EventType } from './event-type';

type Checked = Operations['setEventSchema']['answer'];

/** What is stored: when it was put, and the text that was written for it. */
interface Base {
  readonly changedAt: string | undefined;
  readonly text: string;
}

/** What a type without a schema begins with: it holds the data to nothing yet. */
const BEGUN = { type: 'object', required: [], properties: {} };

/** What is written is called among the drafts of the tab. */
const FILE = 'schema.json';

const baseOf = ({ schema = BEGUN, schemaChangedAt }: EventType): Base => ({
  changedAt: schemaChangedAt,
  text: JSON.stringify(schema, null, 2),
});

/** Where the browser tells it. */
function markOf({ message }: SyntaxError): readonly Mark[] {
  const [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? [];
  return line === undefined ? [] : [{ severity: 'error', message, line: Number(line), column: Number(column) }];
}

/** The schema that the data of a type's events must fit: written, tried on those that are stored, and put. */
export function EventSchema({
  of: type,
  onChanged,
}: {
  readonly of: EventType;
  readonly onChanged: () => void;
}): JSX.Element {
  const { client, drafts } = useSession();
  const { busy, error, told, run } = useDeeds();
  const draft = `event-types ${type.eventType}`;
  const [base, setBase] = useState<Base>(() => baseOf(type));
  const [given, setGiven] = useState<Given>(() => ({ text: drafts.get(draft)?.[FILE] ?? base.text }));
  const [text, setText] = useState(given.text);
  const [isOthers, setOthers] = useState(false);
  const [marks, setMarks] = useState<readonly Mark[]>([]);
  const [checked, setChecked] = useState<Checked>();
  const [isRemoving, setRemoving] = useState(false);
  const { eventType, schemaVersion, schemaChangedAt } = type;
  const isEdited = text !== base.text;
  const write = (changed: string): void => {
    setText(changed);
    if (changed === base.text) drafts.delete(draft);
    else drafts.set(draft, { [FILE]: changed });
  };
  const take = (): void => {
    const stored = baseOf(type);
    drafts.delete(draft);
    setBase(stored);
    setGiven(stored);
    setText(stored.text);
    setOthers(false);
    setMarks([]);
    setChecked(undefined);
  };
  useEffect(() => {
    // What is written stays, whoever puts another schema meanwhile.
    if (schemaChangedAt === base.changedAt) setOthers(false);
    else if (isEdited) setOthers(true);
    else take();
  }, [schemaChangedAt]);
  const stored = (changedAt: string | undefined): void => {
    drafts.delete(draft);
    setBase({ changedAt, text });
    onChanged();
  };
  const put = async (check: boolean): Promise<Checked> => {
    setChecked(undefined);
    const answer = await client.request('setEventSchema', {
      path: { type: eventType },
      query: check ? { check } : {},
      body: { schema: written(text, setMarks) },
      timeoutMs: LONG_MS,
    });
    setChecked(answer);
    return answer;
  };
  const tryIt = (): void =>
    run('try', async () => {
      await put(true);
    });
  const save = (): void =>
    run('save', async () => {
      const answer = await put(false);
      stored(answer.schemaChangedAt);
      return `Version ${answer.schemaVersion} of the schema holds: what does not fit it is refused from now on.`;
    });
  const isBusy = busy !== undefined;
  return (
    <section aria-label="Schema">
      <h2>JSON Schema of its data</h2>
      {isOthers && (
        <p class="failure" role="alert">
          Somebody has changed the schema since you began to write.{' '}
          <button type="button" onClick={take}>
            Take theirs
          </button>
        </p>
      )}
      <div class="schema">
        <CodeBox
          language="json"
          label={`JSON Schema of ${eventType}`}
          given={given}
          marks={marks}
          onChange={write}
          onRun={tryIt}
        />
      </div>
      <p class="filters">
        <button type="button" disabled={isBusy} onClick={tryIt}>
          {busy === 'try' ? 'Trying…' : 'Try it'}
        </button>
        <button type="button" class="primary" disabled={isBusy} onClick={save}>
          {busy === 'save' ? 'Saving…' : 'Save'}
        </button>
        {isEdited && !isOthers && (
          <button type="button" onClick={take}>
            Discard what was changed
          </button>
        )}
        {schemaVersion !== undefined && (
          <button type="button" class="danger" disabled={isBusy} onClick={() => setRemoving(true)}>
            Remove the schema
          </button>
        )}
        <span class="faint">Ctrl Enter tries it on the events that are stored, and changes nothing</span>
      </p>
      {error !== undefined && <Failure error={error} />}
      {told !== undefined && <p role="status">{told}</p>}
      {checked !== undefined && <OfStored checked={checked} />}
      {isRemoving && (
        <Confirm
          title={`Remove the schema of ${eventType}?`}
          deed="Remove"
          onClose={() => setRemoving(false)}
          run={async () => {
            await client.request('deleteEventSchema', { path: { type: eventType } });
            setChecked(undefined);
            stored(undefined);
          }}
        >
          <p>The data of its events may be anything again. What is written here can be saved again.</p>
        </Confirm>
      )}
    </section>
  );
}

/** Marks the place that is no JSON. @throws SyntaxError */
function written(text: string, mark: (marks: readonly Mark[]) => void): unknown {
  try {
    const schema = parseJson(text);
    mark([]);
    return schema;
  } catch (error) {
    if (error instanceof SyntaxError) mark(markOf(error));
    throw error;
  }
}

/** What a schema says of the events that are stored. */
function OfStored({ checked: { eventType, checked, unfit, examples, cut, ignored } }: { readonly checked: Checked }) {
  return (
    <section aria-label="Stored events">
      <p role="status">
        <Badge kind={unfit === 0 ? 'good' : 'bad'}>{unfit === 0 ? 'all fit' : 'not all fit'}</Badge>{' '}
        {plural(checked, 'stored event')} of {eventType} looked at; {plural(unfit, 'event')} would not fit. They stay as
        they are.
      </p>
      {cut !== undefined && <p class="failure">{cut}</p>}
      {ignored.length > 0 && (
        <>
          <p>These words in the schema check nothing:</p>
          <Places of={ignored} />
        </>
      )}
      <ul class="faults">
        {examples.map(({ aggregateId, version, eventId, timestamp, errors }) => (
          <li key={eventId}>
            <Link href={`/aggregates/${encodeURIComponent(aggregateId)}?version=${version}`}>
              Version {version} of {aggregateId}
            </Link>{' '}
            <span class="faint">
              <Time at={timestamp} />
            </span>
            <Places of={errors} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const Places = ({ of }: { readonly of: Checked['ignored'] }): JSX.Element => (
  <ul>
    {of.map(({ pointer, message }, n) => (
      <li key={n}>
        <code>{pointer}</code> {message}
      </li>
    ))}
  </ul>
);
