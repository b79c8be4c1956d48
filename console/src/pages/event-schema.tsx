import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { useDeeds } from '../deed';
import type { Base } from '../drafts';
import { eventTypeOf, type EventType } from '../event-types';
import { parseJson } from '../exact-json';
import { notJson } from '../json-mark';
import type { Mark } from '../lazy/editor';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { useShown } from '../shown';
import { CodeBox, type Given } from '../ui/code-box';
import { Confirm } from '../ui/dialogs';
import { Badge, Failure, Time } from '../ui/parts';
import { SourcesDifference } from '../ui/sources-difference';
import { plural } from '../words';

type Checked = Operations['setEventSchema']['answer'];

/** What a type without a schema begins with: it holds the data to nothing yet. */
const BEGUN = { type: 'object', required: [], properties: {} };

/** What is written is called among the drafts of the tab. */
const FILE = 'schema.json';
/** No schema was put. */
const NONE = '';

/** Its version is when it was put. */
const baseOf = ({ schema = BEGUN, schemaChangedAt = NONE }: EventType): Base => ({
  version: schemaChangedAt,
  sources: { [FILE]: JSON.stringify(schema, null, 2) },
});

const textOf = ({ sources }: Pick<Base, 'sources'>): string => sources[FILE] ?? '';

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
  const isShown = useShown();
  const draft = `event-types ${type.eventType}`;
  const [base, setBase] = useState<Base>(() => drafts.get(draft)?.base ?? baseOf(type));
  const [given, setGiven] = useState<Given>(() => ({ text: textOf(drafts.get(draft) ?? base) }));
  const [text, setText] = useState(given.text);
  /** What somebody else has put since `base`. */
  const [theirs, setTheirs] = useState<Base>();
  const [marks, setMarks] = useState<readonly Mark[]>([]);
  const [checked, setChecked] = useState<Checked>();
  const [isRemoving, setRemoving] = useState(false);
  const { eventType, schemaVersion, schemaChangedAt = NONE } = type;
  const isEdited = text !== textOf(base);
  const write = (changed: string): void => {
    setText(changed);
    if (changed === textOf(base)) drafts.delete(draft);
    else drafts.set(draft, { sources: { [FILE]: changed }, base });
  };
  const take = (stored: Base): void => {
    drafts.delete(draft);
    setBase(stored);
    setGiven({ text: textOf(stored) });
    setText(textOf(stored));
    setTheirs(undefined);
    setMarks([]);
    setChecked(undefined);
  };
  useEffect(() => {
    // What is written stays, whoever puts another schema meanwhile.
    if (schemaChangedAt === base.version) setTheirs(undefined);
    else if (isEdited) setTheirs(baseOf(type));
    else take(baseOf(type));
  }, [schemaChangedAt]);
  /** `sent` is what is stored now, since `version`; what was written meanwhile stays a draft. */
  const stored = (version: string, sent: string): void => {
    const now = { version, sources: { [FILE]: sent } };
    const written = drafts.get(draft);
    if (written === undefined || textOf(written) === sent) drafts.delete(draft);
    else drafts.set(draft, { ...written, base: now });
    setBase(now);
    setTheirs(undefined);
    onChanged();
  };
  /** The service takes no condition with a schema, so what it has is looked at right before. */
  const othersSince = async (seen: string): Promise<boolean> => {
    const now = baseOf(await eventTypeOf(client, eventType));
    if (now.version === seen) return false;
    setTheirs(now);
    return true;
  };
  const put = async (check: boolean): Promise<Checked> => {
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
    run(
      'try',
      async () => {
        setChecked(undefined);
        await put(true);
      },
      { changesNothing: true },
    );
  /** `over`: what is to be replaced. */
  const save = (over: Base): void =>
    run('save', async () => {
      setChecked(undefined);
      written(text, setMarks);
      if (await othersSince(over.version))
        return isShown() ? undefined : `The schema of ${eventType} was not saved: somebody has changed it meanwhile.`;
      const answer = await put(false);
      stored(answer.schemaChangedAt ?? NONE, text);
      return `Version ${answer.schemaVersion} of the schema holds: what does not fit it is refused from now on.`;
    });
  const isBusy = busy !== undefined;
  return (
    <section aria-label="Schema">
      <h2>JSON Schema of its data</h2>
      {theirs !== undefined && (
        <>
          <div class="failure" role="alert">
            <p>Somebody has changed the schema since you began to write. Nothing of yours is saved yet.</p>
            <div class="buttons">
              <button type="button" disabled={isBusy} onClick={() => take(theirs)}>
                Take theirs
              </button>
              <button type="button" disabled={isBusy} onClick={() => save(theirs)}>
                Save mine in its place
              </button>
            </div>
          </div>
          <SourcesDifference
            before={theirs.sources}
            after={{ [FILE]: text }}
            words="theirs to mine"
            same="Theirs is what is written here."
          />
        </>
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
        <button type="button" class="primary" disabled={isBusy} onClick={() => save(base)}>
          {busy === 'save' ? 'Saving…' : 'Save'}
        </button>
        {isEdited && theirs === undefined && (
          <button type="button" onClick={() => take(baseOf(type))}>
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
            // It is theirs then, and not what was asked about.
            if (await othersSince(schemaChangedAt)) return;
            await client.request('deleteEventSchema', { path: { type: eventType } });
            setChecked(undefined);
            stored(NONE, text);
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
  const wrong = notJson(text, parseJson);
  mark(wrong === undefined ? [] : [wrong]);
  return parseJson(text);
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
