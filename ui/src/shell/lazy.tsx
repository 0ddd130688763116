/** A page whose code arrives when it is first shown; says so when it cannot be loaded. */
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Notice } from './notice.tsx';
import type { PageProps } from './pages.tsx';

export function lazy(load: () => Promise<ComponentType<PageProps>>): ComponentType<PageProps> {
  let loaded: ComponentType<PageProps> | null = null;
  return function Lazy(props: PageProps) {
    const [Body, setBody] = useState(() => loaded);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Body !== null) return undefined;
      let wanted = true;
      load().then(
        (component) => {
          loaded = component;
          if (wanted) setBody(() => component);
        },
        () => wanted && setFailed(true),
      );
      return () => {
        wanted = false;
      };
    }, [Body]);
    if (Body !== null) return <Body {...props} />;
    if (!failed) return <div class="page" aria-busy="true" />;
    return (
      <div class="page">
        <Notice kind="error" title="This page could not be loaded">
          The server did not send it. It may be restarting, or have been replaced by another
          version.{' '}
          <button class="link" onClick={() => window.location.reload()}>
            Load again
          </button>
        </Notice>
      </div>
    );
  };
}
