// The editor, in a file of its own: only pages with one fetch it.
import { autocompletion, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { sql, SQLDialect } from '@codemirror/lang-sql';
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  StreamLanguage,
  syntaxHighlighting,
  type StreamParser,
} from '@codemirror/language';
import { csharp } from '@codemirror/legacy-modes/mode/clike';
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, Prec, type Extension, type Text } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';

/** Lines and columns count from 1; a column that is undefined stands for the whole line. */
export interface Mark {
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly line: number;
  readonly column: number | undefined;
}

export interface EditorOptions {
  readonly language: 'sql' | 'csharp' | 'json';
  readonly onChange: (text: string) => void;
  /** Ctrl+Enter, ⌘+Enter. */
  readonly onRun: () => void;
}

export interface Editor {
  /** Replaces the text by one that is called so, and forgets what could be undone. */
  show(text: string, label: string): void;
  /** Puts the text where the cursor is, and the cursor behind it. */
  insert(text: string): void;
  /** For completion: columns by the name of their table. */
  complete(tables: Readonly<Record<string, readonly string[]>>): void;
  mark(marks: readonly Mark[]): void;
  goTo(line: number, column: number | undefined): void;
  close(): void;
}

const ClickHouse = SQLDialect.define({
  keywords:
    'select from where prewhere group by having order asc desc limit offset with ties rollup cube totals distinct as on using join inner left right full outer cross asof semi anti any all union except intersect and or not in is null like ilike between case when then else end exists final sample array window over partition rows range preceding following unbounded current row qualify interval settings format describe show tables explain if true false nulls first last global',
  types:
    'string fixedstring int8 int16 int32 int64 int128 int256 uint8 uint16 uint32 uint64 uint128 uint256 float32 float64 decimal date date32 datetime datetime64 uuid tuple map nullable lowcardinality json bool enum8 enum16 ipv4 ipv6',
  builtin:
    'count countif sum sumif avg min max any anylast uniq uniqexact quantile quantiles median grouparray argmin argmax tostartofhour tostartofday tostartofminute tostartofmonth todate now tostring toint64 tofloat64 arrayjoin length round if multiif coalesce formatdatetime datediff jsonextractstring',
  identifierQuotes: '`"',
  backslashEscapes: true,
});

/** Of the page's own colours, so that light and dark are right, and of the contrast that its text has. */
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--busy)' },
  { tag: [tags.comment, tags.meta], color: 'var(--faint)' },
  { tag: [tags.typeName, tags.className], color: 'var(--text)', fontWeight: '600' },
]);

const look = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--ground)', fontSize: '12px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--raised)', color: 'var(--faint)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--raised) 60%, transparent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--chosen)',
  },
  '.cm-tooltip, .cm-panels': {
    border: '1px solid var(--line)',
    backgroundColor: 'var(--raised)',
    color: 'var(--text)',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--chosen)', color: 'var(--text)' },
  // The marks that the library brings are data: URLs, which the policy of the pages keeps out.
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)' },
  '.cm-lintRange-warning': { backgroundImage: 'none', textDecoration: 'underline wavy var(--busy)' },
  '.cm-lint-marker': { width: '8px', height: '8px', margin: '5px 2px', borderRadius: '4px' },
  '.cm-lint-marker-error': { content: 'normal', backgroundColor: 'var(--bad)' },
  '.cm-lint-marker-warning': { content: 'normal', backgroundColor: 'var(--busy)' },
});

/** By its tokens alone: a language of the library's own has a parser that is many times as long. */
const json: StreamParser<undefined> = {
  name: 'json',
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^"(?:[^"\\]|\\.)*"?(?=\s*:)/)) return 'typeName';
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return 'string';
    if (stream.match(/^-?\d[\d.eE+-]*/)) return 'number';
    if (stream.match(/^(?:true|false|null)\b/)) return 'atom';
    stream.next();
    return null;
  },
};

/** How the lines of a language look and are written, beside what all have. */
const SPEECH: Readonly<Record<Exclude<EditorOptions['language'], 'sql'>, readonly Extension[]>> = {
  csharp: [StreamLanguage.define(csharp), indentUnit.of('    '), keymap.of([indentWithTab])],
  json: [StreamLanguage.define(json), indentUnit.of('  '), EditorView.lineWrapping],
};

const sqlWith = (tables: Readonly<Record<string, readonly string[]>>): Extension =>
  sql({ dialect: ClickHouse, schema: Object.fromEntries(Object.entries(tables).map(([name, of]) => [name, [...of]])) });

/** What is written over a selection: browsers would keep its look by an inline style, which the policy of the pages refuses. */
function replaced(event: InputEvent, view: EditorView): boolean {
  const { data, inputType, isComposing } = event;
  const { main } = view.state.selection;
  if (inputType !== 'insertText' || isComposing || data === null || main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(data), { userEvent: 'input.type', scrollIntoView: true });
  return true;
}

/** Within `host`, in a shadow tree: styles there need no exception from the policy of the pages. */
export function openEditor(host: HTMLElement, { language, onChange, onRun }: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const speech = new Compartment();
  let isShown = false;
  const fresh = (text: string, label: string): EditorState =>
    EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        highlightSpecialChars(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        search({ top: true }),
        syntaxHighlighting(colours),
        speech.of(language === 'sql' ? sqlWith({}) : [...SPEECH[language]]),
        ...(language === 'sql' ? [autocompletion(), EditorView.lineWrapping] : [lintGutter()]),
        Prec.highest(
          keymap.of([
            {
              key: 'Mod-Enter',
              run: () => {
                onRun();
                return true;
              },
            },
          ]),
        ),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...lintKeymap]),
        Prec.highest(EditorView.domEventHandlers({ beforeinput: replaced })),
        // It scrolls with what it holds, so the keyboard must come there.
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
        EditorView.updateListener.of(({ docChanged, state }) => {
          if (docChanged && !isShown) onChange(state.doc.toString());
        }),
        look,
      ],
    });
  const view = new EditorView({ state: fresh('', ''), root, parent: root });
  let tables: Readonly<Record<string, readonly string[]>> = {};
  const teach = (): void => view.dispatch({ effects: speech.reconfigure(sqlWith(tables)) });
  return {
    show(text, label) {
      isShown = true;
      view.setState(fresh(text, label));
      isShown = false;
      if (language === 'sql') teach();
    },
    insert(text) {
      view.dispatch(view.state.replaceSelection(text));
      view.focus();
    },
    complete(given) {
      tables = given;
      teach();
    },
    mark(marks) {
      const found = marks.map((mark) => diagnosticOf(view.state.doc, mark));
      view.dispatch(setDiagnostics(view.state, found));
    },
    goTo(line, column) {
      const { from } = rangeOf(view.state.doc, line, column);
      view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
      view.focus();
    },
    close() {
      view.destroy();
    },
  };
}

function diagnosticOf(doc: Text, { severity, message, line, column }: Mark): Diagnostic {
  return { ...rangeOf(doc, line, column), severity, message };
}

/** From the column to the end of the word; the code may have changed since it was compiled. */
function rangeOf(doc: Text, line: number, column: number | undefined): { readonly from: number; readonly to: number } {
  const { from, to, text } = doc.line(Math.min(Math.max(line, 1), doc.lines));
  if (column === undefined) return { from: from + (text.length - text.trimStart().length), to };
  const begin = Math.min(from + column - 1, to);
  const word = /^\W?\w+/.exec(text.slice(begin - from))?.[0].length ?? 1;
  return { from: begin, to: Math.min(begin + word, to) };
}
