/** The upper row of a panel: the editor and what can be done with the panel. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { CloseIcon, CopyIcon } from '../shell/icons.tsx';
import { Editor, type EditorHandle } from './editor.tsx';
import { HistoryMenu } from './history-menu.tsx';

/** Where the focus would bring up a keyboard over half of the screen. */
const TOUCH = window.matchMedia('(pointer: coarse)').matches;

interface Props {
  readonly expr: string;
  readonly number: number;
  readonly only: boolean;
  /** The server's complaint about the expression. */
  readonly error: string | null;
  readonly loading: boolean;
  readonly onRun: (expr: string) => void;
  readonly onCancel: () => void;
  readonly onDuplicate: () => void;
  readonly onRemove: () => void;
}

export function PanelBar(props: Props) {
  const { expr, number, only, onRun } = props;
  const editor = useRef<EditorHandle>(null);
  const [draft, setDraft] = useState(expr);
  useEffect(() => setDraft(expr), [expr]);
  const slow = useSlow(props.loading);
  const empty = expr === '';
  return (
    <div class="panel-top">
      <Editor
        value={expr}
        error={props.error}
        label={`Expression of panel ${number}`}
        autofocus={empty && only && !TOUCH}
        onRun={onRun}
        onChange={setDraft}
        handle={editor}
      />
      <div class="panel-actions">
        <HistoryMenu
          onPick={(past) => {
            editor.current?.setText(past);
            onRun(past);
          }}
        />
        <button
          class="quiet square"
          onClick={props.onDuplicate}
          title="Duplicate this panel"
          aria-label={`Duplicate panel ${number}`}
        >
          <CopyIcon />
        </button>
        <button
          class="quiet square"
          onClick={props.onRemove}
          disabled={only && empty}
          title={only ? 'Clear this panel' : 'Remove this panel'}
          aria-label={`${only ? 'Clear' : 'Remove'} panel ${number}`}
        >
          <CloseIcon />
        </button>
        {slow ? (
          <button class="button run" onClick={props.onCancel}>
            Cancel
          </button>
        ) : (
          <button
            class={`button run ${draft.trim() !== expr ? 'primary' : ''}`}
            onClick={() => onRun(editor.current?.text() ?? '')}
          >
            Run
          </button>
        )}
      </div>
      <div class={`progress ${slow ? 'on' : ''}`} aria-hidden="true" />
    </div>
  );
}

/** How long an answer may take before the page makes anything of it, milliseconds. */
const QUICK = 300;

/** Loading, and for longer than an eye would notice: quick answers must not make anything flash. */
function useSlow(loading: boolean): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    if (!loading) {
      setSlow(false);
      return undefined;
    }
    const timer = setTimeout(() => setSlow(true), QUICK);
    return () => clearTimeout(timer);
  }, [loading]);
  return slow;
}
