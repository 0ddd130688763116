/** The page *Cost*: what the server costs whoever runs it, where that goes, and down to the function why. */
import { pageUrl } from '../base.ts';
import type { PageProps } from '../shell/pages.tsx';
import '../style/cost.css';
import { ProfileView } from './flame/view.tsx';
import { Overview } from './overview.tsx';
import { OVERVIEW, overviewLink, profileLink, readOverview, readProfile } from './state.ts';

export function CostPage({ search }: PageProps) {
  const profile = readProfile(search);
  return (
    <div class="page cost">
      <div class="page-head">
        <h1>Cost</h1>
        <nav class="segments" aria-label="Cost">
          <a
            href={pageUrl(overviewLink(OVERVIEW))}
            data-page
            aria-current={profile === null ? 'page' : undefined}
          >
            Overview
          </a>
          <a
            href={pageUrl(profileLink({ type: 'cpu' }))}
            data-page
            aria-current={profile !== null ? 'page' : undefined}
          >
            Flame graph
          </a>
        </nav>
      </div>
      {profile === null ? (
        <Overview state={readOverview(search)} />
      ) : (
        <ProfileView state={profile} />
      )}
    </div>
  );
}
