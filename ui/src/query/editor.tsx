/**
 * The expression editor: Prometheus' own PromQL language for CodeMirror with completion from the API,
 * linting while typing, and the server's error marked at its place. Enter runs, Shift+Enter breaks
 * the line, Alt+Up and Alt+Down walk through past expressions.
 */
import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
  completionStatus,
  startCompletion,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, insertNewline } from '@codemirror/commands';
import { bracketMatching } from '@codemirror/language';
import { lintKeymap } from '@codemirror/lint';
import { EditorState, Prec } from '@codemirror/state';
import { drawSelection, EditorView, keymap, placeholder } from '@codemirror/view';
import { PromQLExtension } from '@prometheus-io/codemirror-promql';
import { useEffect, useImperativeHandle, useRef } from 'preact/hooks';
import type { Ref } from 'preact';
import { apiUrl } from '../base.ts';
import { pastExpressions } from '../settings.ts';
import { editorLook } from './editor-theme.ts';
import { serverErrorMarks, showServerError } from './server-error.ts';

export interface EditorHandle {
  focus(): void;
  /** The text as it stands, run or not. */
  text(): string;
  setText(text: string): void;
}

interface Props {
  readonly value: string;
  readonly error: string | null;
  readonly label: string;
  readonly autofocus: boolean;
  readonly onRun: (expr: string) => void;
  readonly onChange: (expr: string) => void;
  readonly handle: Ref<EditorHandle>;
}

// One language for all panels: they share its cache of metric names and metadata.
const promql = new PromQLExtension().setComplete({
  remote: {
    apiPrefix: apiUrl('').replace(/\/$/, ''),
    httpMethod: 'GET',
    cache: { maxAge: 60_000 },
  },
});

export function Editor({ value, error, label, autofocus, onRun, onChange, handle }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const run = useRef(onRun);
  const change = useRef(onChange);
  run.current = onRun;
  change.current = onChange;

  useEffect(() => {
    const created = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: value,
        selection: { anchor: value.length },
        extensions: extensions(
          label,
          (expr) => run.current(expr),
          (expr) => change.current(expr),
        ),
      }),
    });
    view.current = created;
    if (autofocus) created.focus();
    return () => created.destroy();
    // The editor lives as long as its panel; later values arrive through the effect below.
  }, []);

  useEffect(() => {
    if (view.current !== null) setText(view.current, value);
  }, [value]);

  useEffect(() => {
    if (view.current !== null) showServerError(view.current, error);
  }, [error]);

  useImperativeHandle(
    handle,
    () => ({
      focus: () => view.current?.focus(),
      text: () => view.current?.state.doc.toString() ?? '',
      setText: (text) => view.current !== null && setText(view.current, text),
    }),
    [],
  );

  return <div class="editor" ref={host} />;
}

function setText(view: EditorView, text: string): void {
  const old = view.state.doc.toString();
  if (old === text) return;
  view.dispatch({
    changes: { from: 0, to: old.length, insert: text },
    selection: { anchor: text.length },
  });
}

function extensions(label: string, run: (expr: string) => void, change: (expr: string) => void) {
  const keys = [
    { key: 'Enter', run: (view: EditorView) => (run(view.state.doc.toString()), true) },
    { key: 'Shift-Enter', run: insertNewline },
    { key: 'Escape', run: leave },
    { key: 'Tab', run: acceptCompletion },
    { key: 'Alt-ArrowUp', run: walkHistory(1) },
    { key: 'Alt-ArrowDown', run: walkHistory(-1) },
  ];
  return [
    // Enter takes a completion only if one has been chosen with the arrows; otherwise it runs.
    autocompletion({ selectOnOpen: false, icons: false, closeOnBlur: true }),
    Prec.highest(keymap.of([{ key: 'ArrowDown', run: openOnEmpty }])),
    keymap.of(completionKeymap),
    keymap.of([...keys, ...closeBracketsKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
    history(),
    closeBrackets(),
    bracketMatching(),
    drawSelection(),
    EditorView.lineWrapping,
    placeholder('Expression, for example up'),
    EditorView.contentAttributes.of({
      'aria-label': label,
      spellcheck: 'false',
      autocapitalize: 'off',
      autocorrect: 'off',
    }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) change(update.state.doc.toString());
    }),
    editorLook,
    serverErrorMarks,
    promql.asExtension(),
  ];
}

/** Down in an empty editor lists every metric. */
function openOnEmpty(view: EditorView): boolean {
  if (view.state.doc.length > 0 || completionStatus(view.state) !== null) return false;
  return startCompletion(view);
}

function leave(view: EditorView): boolean {
  if (completionStatus(view.state) !== null) return closeCompletion(view);
  view.contentDOM.blur();
  return true;
}

/** Puts in the expression that many places earlier in the history than the one that stands there. */
function walkHistory(direction: 1 | -1) {
  return (view: EditorView): boolean => {
    const past = pastExpressions();
    const target = past[past.indexOf(view.state.doc.toString()) + direction];
    if (target !== undefined) setText(view, target);
    return true;
  };
}
