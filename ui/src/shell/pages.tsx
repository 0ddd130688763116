/**
 * The pages there are. A new one (alerts, rules) is one more line here: it gets its place in
 * the navigation and its address. The query page and the page of costs are chunks of their own because
 * the editor and the graphs are nine tenths of all code; the others come with the frame.
 */
import type { ComponentType } from 'preact';
import { CardinalityPage } from '../status/cardinality-page.tsx';
import { ConfigPage } from '../status/config-page.tsx';
import { FlagsPage } from '../status/flags-page.tsx';
import { RuntimePage } from '../status/page.tsx';
import { DiscoveryPage } from '../targets/discovery-page.tsx';
import { TargetsPage } from '../targets/page.tsx';
import { lazy } from './lazy.tsx';

export interface PageProps {
  /** What stands behind the `?` of the address. */
  readonly search: string;
}

export interface Page {
  /** Its address below the base, the one Prometheus uses where it has such a page. */
  readonly path: string;
  readonly title: string;
  /** The entry of the navigation it belongs to; entries appear in the order of their first page. */
  readonly section: string;
  readonly Body: ComponentType<PageProps>;
}

const QueryPage = lazy(() => import('../query/page.tsx').then((m) => m.QueryPage));
const CostPage = lazy(() => import('../cost/page.tsx').then((m) => m.CostPage));

export const PAGES: readonly Page[] = [
  { path: 'query', title: 'Query', section: 'Query', Body: QueryPage },
  {
    path: 'targets',
    title: 'Targets',
    section: 'Targets',
    Body: TargetsPage,
  },
  {
    path: 'service-discovery',
    title: 'Discovery',
    section: 'Discovery',
    Body: DiscoveryPage,
  },
  {
    path: 'cost',
    title: 'Cost',
    section: 'Cost',
    Body: CostPage,
  },
  {
    path: 'status',
    title: 'Runtime',
    section: 'Status',
    Body: RuntimePage,
  },
  {
    path: 'tsdb-status',
    title: 'Head cardinality',
    section: 'Status',
    Body: CardinalityPage,
  },
  {
    path: 'config',
    title: 'Configuration',
    section: 'Status',
    Body: ConfigPage,
  },
  {
    path: 'flags',
    title: 'Flags',
    section: 'Status',
    Body: FlagsPage,
  },
];

/** The page at an address; the query page at the base and at Prometheus' old `/graph`. */
export function pageAt(path: string): Page | null {
  const wanted = path === '' || path === 'graph' ? 'query' : path;
  return PAGES.find((page) => page.path === wanted) ?? null;
}

/** First page of each section, in order. */
export function sections(): Page[] {
  return PAGES.filter(
    (page, index) => PAGES.findIndex((p) => p.section === page.section) === index,
  );
}
