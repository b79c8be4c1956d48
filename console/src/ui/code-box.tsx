import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Editor, EditorOptions, Mark } from '../lazy/editor';
import { Failure, Loading } from './parts';

export interface Given {
  readonly text: string;
}

export interface CodeBoxProps extends EditorOptions {
  /** What assistive technology calls it. */
  readonly label: string;
  /** What it begins with, and again what another value puts in its place. What is written in it since goes to `onChange` alone. */
  readonly given: Given;
  readonly marks?: readonly Mark[];
  readonly tables?: Readonly<Record<string, readonly string[]>>;
  /** Gives the editor to who wants to insert, or to go to a line; undefined once it is gone. */
  readonly onEditor?: (editor: Editor | undefined) => void;
}

/** The editor with its text, which is fetched when the first one is shown. */
export function CodeBox({ label, given, marks, tables, onEditor, ...options }: CodeBoxProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const [editor, setEditor] = useState<Editor>();
  const [error, setError] = useState<unknown>();
  const latest = useRef(options);
  latest.current = options;
  useEffect(() => {
    let opened: Editor | undefined;
    let isGone = false;
    import('../lazy/editor').then(({ openEditor }) => {
      if (isGone || host.current === null) return;
      const { language } = latest.current;
      opened = openEditor(host.current, {
        language,
        onChange: (changed) => latest.current.onChange(changed),
        onRun: () => latest.current.onRun(),
      });
      setEditor(opened);
      onEditor?.(opened);
    }, setError);
    return () => {
      isGone = true;
      opened?.close();
      onEditor?.(undefined);
    };
  }, []);
  useEffect(() => editor?.show(given.text, label), [editor, given]);
  useEffect(() => editor?.mark(marks ?? []), [editor, marks, given]);
  useEffect(() => {
    if (tables !== undefined) editor?.complete(tables);
  }, [editor, tables]);
  return (
    <div class="code-box">
      {error !== undefined ? <Failure error={error} /> : editor === undefined && <Loading />}
      <div class="code-host" ref={host} />
    </div>
  );
}
