/** The few icons, drawn on a 16 by 16 grid with a line of 1.5. All are decoration: names stand beside or in labels. */
import type { ComponentChildren } from 'preact';

function Icon({ children }: { children: ComponentChildren }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      width="16"
      height="16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

const path = (d: string) => () => (
  <Icon>
    <path d={d} />
  </Icon>
);

export const PlusIcon = path('M8 3.250v9.500M3.250 8h9.500');
export const MinusIcon = path('M3.250 8h9.500');
export const CloseIcon = path('M4 4l8 8M12 4l-8 8');
export const CopyIcon = path('M5.750 5.750h7v7h-7zM10.250 5.500V3.250h-7v7H5.500');
export const ChevronIcon = path('M6 4l4 4-4 4');
export const LeftIcon = path('M10 4L6 8l4 4');
export const RightIcon = path('M6 4l4 4-4 4');
export const HistoryIcon = path('M3 8a5 5 0 1 0 1.700-3.750M3 3v2.250h2.250M8 5.500V8l1.750 1.250');
export const RefreshIcon = path('M13 8a5 5 0 1 1-1.500-3.550M13 2.750V5.250h-2.500');
export const SunIcon = () => (
  <Icon>
    <circle cx="8" cy="8" r="2.750" />
    <path d="M8 1.750v1M8 13.250v1M1.750 8h1M13.250 8h1M3.600 3.600l.7.7M11.700 11.700l.7.7M3.600 12.400l.7-.7M11.700 4.300l.7-.7" />
  </Icon>
);
export const MoonIcon = path('M13 9.400A5.400 5.400 0 0 1 6.600 3a5.400 5.400 0 1 0 6.400 6.400z');
export const ScreenIcon = path('M2.250 3.250h11.500v7.500H2.250zM6 13.250h4');
export const CalendarIcon = path(
  'M2.75 4h10.500v9.250H2.750zM2.750 7h10.500M5.500 2.250V4.500M10.500 2.250V4.500',
);
export const SearchIcon = path(
  'M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.400 10.400l3.100 3.100',
);
export const CheckIcon = path('M3.500 8.500l3 3 6-7');
export const WarnIcon = path('M8 2.500l6 10.750H2zM8 6.500v3M8 11.400v.1');

/** The wordmark's sign: a line that rises free of its ground. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="currentColor" />
      <path
        d="M5 21.500C10 21.500 11 11 16 11s6 10.500 11 10.500"
        fill="none"
        stroke="var(--surface)"
        stroke-width="3"
        stroke-linecap="round"
      />
    </svg>
  );
}
