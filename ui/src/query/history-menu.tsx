/** The menu of past expressions. Closes on Esc, on a choice, and when the focus leaves it. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { pastExpressions } from '../settings.ts';
import { HistoryIcon } from '../shell/icons.tsx';

export function HistoryMenu({ onPick }: { onPick: (expr: string) => void }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const past = open ? pastExpressions() : [];
  useEffect(() => {
    if (open) root.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
  }, [open]);
  const move = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      setOpen(false);
      root.current?.querySelector('button')?.focus();
    }
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step === 0 || !open) return;
    event.preventDefault();
    const items = [...(root.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const index = items.indexOf(document.activeElement as HTMLElement);
    items[(index + step + items.length) % items.length]?.focus();
  };
  const leave = (event: FocusEvent) => {
    if (!(event.relatedTarget instanceof Node) || !root.current?.contains(event.relatedTarget))
      setOpen(false);
  };
  return (
    <div class="menu-root" ref={root} onKeyDown={move} onFocusOut={leave}>
      <button
        class="quiet square"
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        title="Past expressions"
        aria-label="Past expressions"
      >
        <HistoryIcon />
      </button>
      {open && (
        <div class="menu" role="menu" aria-label="Past expressions">
          {past.length === 0 && <p class="faint">Expressions that you run are kept here.</p>}
          {past.map((expr) => (
            <button
              key={expr}
              role="menuitem"
              onClick={() => {
                setOpen(false);
                onPick(expr);
              }}
            >
              {expr}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
