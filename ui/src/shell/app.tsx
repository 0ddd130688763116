/** The frame of every page: navigation, settings, shortcuts, and the page itself. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { pageUrl } from '../base.ts';
import { changeSettings, useSettings, type Theme } from '../settings.ts';
import { readState } from '../url-state.ts';
import { Mark, MoonIcon, ScreenIcon, SunIcon } from './icons.tsx';
import { Notice } from './notice.tsx';
import { pageAt, PAGES, sections, type Page } from './pages.tsx';
import { followLink, usePlace } from './router.ts';
import { Shortcuts } from './shortcuts.tsx';

export function App() {
  const place = usePlace();
  const page = pageAt(place.page);
  const [help, setHelp] = useState(false);
  useGlobalKeys(() => setHelp(true));

  useEffect(() => {
    document.title = `${titleOf(page, place.search)} · unladen`;
  }, [page, place.search]);

  return (
    <div class="app" onClick={followLink}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="bar">
        <a class="brand" href={pageUrl('query')} data-page aria-label="unladen, query page">
          <Mark />
          <span>unladen</span>
        </a>
        <nav class="nav" aria-label="Pages">
          {sections().map((first) => (
            <a
              key={first.section}
              href={pageUrl(first.path)}
              data-page
              aria-current={page?.section === first.section ? 'page' : undefined}
            >
              {first.section}
            </a>
          ))}
        </nav>
        <Preferences onHelp={() => setHelp(true)} />
      </header>
      <main id="main" tabIndex={-1}>
        {page === null ? (
          <NotFound path={place.page} />
        ) : (
          <>
            <SubNavigation page={page} />
            <page.Body key={page.path} search={place.search} />
          </>
        )}
      </main>
      {help && <Shortcuts onClose={() => setHelp(false)} />}
    </div>
  );
}

/** On the query page the expressions, so that one finds the tab again. */
function titleOf(page: Page | null, search: string): string {
  if (page === null) return 'Not found';
  const expressions = readState(search).panels.map((panel) => panel.expr.replace(/\s+/g, ' '));
  const text = page.path === 'query' ? expressions.filter((expr) => expr !== '').join(', ') : '';
  return text === '' ? page.title : text.slice(0, 100);
}

function SubNavigation({ page }: { page: Page }) {
  const siblings = PAGES.filter((other) => other.section === page.section);
  if (siblings.length < 2) return null;
  return (
    <nav class="subnav" aria-label={page.section}>
      {siblings.map((other) => (
        <a
          key={other.path}
          href={pageUrl(other.path)}
          data-page
          aria-current={other === page ? 'page' : undefined}
        >
          {other.title}
        </a>
      ))}
    </nav>
  );
}

function NotFound({ path }: { path: string }) {
  return (
    <div class="page">
      <Notice kind="info" title="There is no such page">
        <code>/{path}</code> is not one of this server's pages.{' '}
        <a href={pageUrl('query')} data-page>
          Go to the query page
        </a>
      </Notice>
    </div>
  );
}

const THEMES: readonly {
  readonly name: Theme;
  readonly next: Theme;
  readonly Icon: () => unknown;
}[] = [
  { name: 'system', next: 'light', Icon: ScreenIcon },
  { name: 'light', next: 'dark', Icon: SunIcon },
  { name: 'dark', next: 'system', Icon: MoonIcon },
];

function Preferences({ onHelp }: { onHelp: () => void }) {
  const { theme, utc } = useSettings();
  const { next, Icon } = THEMES.find((t) => t.name === theme) ?? THEMES[0]!;
  const zone = utc ? 'UTC' : 'Local';
  return (
    <div class="preferences">
      <button
        class="quiet zone"
        onClick={() => changeSettings({ utc: !utc })}
        title={`Times are shown in ${utc ? 'UTC' : 'your time zone'}. Click to change.`}
        aria-label={`Time zone: ${zone}. Change`}
      >
        {zone}
      </button>
      <button
        class="quiet square"
        onClick={() => changeSettings({ theme: next })}
        title={`Theme: ${theme}. Click for ${next}.`}
        aria-label={`Theme: ${theme}. Change to ${next}`}
      >
        {Icon() as never}
      </button>
      <button
        class="quiet square help"
        onClick={onHelp}
        title="Keyboard shortcuts (?)"
        aria-label="Keyboard shortcuts"
      >
        ?
      </button>
    </div>
  );
}

/** `/` goes to the editor or filter of the page, `?` shows the shortcuts. */
function useGlobalKeys(onHelp: () => void): void {
  const help = useRef(onHelp);
  help.current = onHelp;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === '?') help.current();
      else if (event.key === '/') {
        const field = document.querySelector<HTMLElement>('.cm-content, [data-filter]');
        if (field === null) return;
        field.focus();
      } else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.matches('input, textarea, select'))
  );
}
