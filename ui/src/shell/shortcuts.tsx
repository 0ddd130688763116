/** The list of keyboard shortcuts, as a modal dialog: Esc closes it and the focus returns. */
import { useEffect, useRef } from 'preact/hooks';
import { CloseIcon } from './icons.tsx';

const GROUPS: readonly {
  readonly title: string;
  readonly keys: readonly (readonly [keys: string, effect: string])[];
}[] = [
  {
    title: 'Everywhere',
    keys: [
      ['/', 'Go to the expression or filter'],
      ['?', 'Show this list'],
      ['Esc', 'Close what is open; leave the editor'],
    ],
  },
  {
    title: 'Editor',
    keys: [
      ['Enter', 'Run the expression'],
      ['Shift Enter', 'New line'],
      ['Ctrl Space', 'Show completions'],
      ['Tab', 'Take the selected completion'],
      ['Alt ↑  Alt ↓', 'Earlier and later expressions'],
    ],
  },
  {
    title: 'Graph and legend',
    keys: [
      ['Drag', 'Zoom into that span'],
      ['Double click', 'Zoom back out'],
      ['Click a series', 'Show only this; again: all'],
      ['Ctrl Click', 'Show or hide this series'],
    ],
  },
  {
    title: 'Flame graph',
    keys: [
      ['← → ↑ ↓', 'Walk from call to call'],
      ['Enter, Click', 'Zoom into this call'],
      ['Esc', 'Show the whole again'],
    ],
  },
];

export function Shortcuts({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      class="dialog"
      aria-labelledby="shortcuts-title"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="dialog-body">
        <header>
          <h2 id="shortcuts-title">Keyboard and mouse</h2>
          <button class="quiet square" onClick={() => dialog.current?.close()} aria-label="Close">
            <CloseIcon />
          </button>
        </header>
        {GROUPS.map((group) => (
          <section key={group.title}>
            <h3>{group.title}</h3>
            <dl class="keys">
              {group.keys.map(([keys, effect]) => (
                <div key={keys}>
                  <dt>
                    <kbd>{keys}</kbd>
                  </dt>
                  <dd>{effect}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  );
}
