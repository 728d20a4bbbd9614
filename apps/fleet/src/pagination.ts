export interface PageLink {
  readonly label: number | 'Prev' | 'Next' | '...';
  readonly url: string;
  readonly state: '' | 'active' | 'disabled';
}

export interface PaginationOptions {
  /** Counted from 0. */
  readonly page: number;
  readonly items: number;
  readonly pageSize: number;
  /** Follows the page's number in each link, as in `&user=me`. */
  readonly query: string;
}

/** Links to the first page, the last, this one and its neighbours. */
export function pagination({ page, items, pageSize, query }: PaginationOptions): PageLink[] {
  const last = Math.max(1, Math.ceil(items / pageSize));
  const here = page + 1;
  const url = (number: number) => `?page=${number}${query}`;
  const gap: PageLink = { label: '...', url: '', state: 'disabled' };
  const numbers = new Set([1, here - 1, here, here + 1, last]);
  const shown = [...numbers].filter((one) => one >= 1 && one <= last).sort((a, b) => a - b);
  const links = shown.flatMap((number, at): PageLink[] => {
    const link: PageLink = {
      label: number,
      url: url(number),
      state: number === here ? 'active' : '',
    };
    return at > 0 && number - (shown[at - 1] as number) > 1 ? [gap, link] : [link];
  });
  const previous: PageLink = { label: 'Prev', url: url(page), state: page > 0 ? '' : 'disabled' };
  const next: PageLink = {
    label: 'Next',
    url: url(here + 1),
    state: here < last ? '' : 'disabled',
  };
  return [previous, ...links, next];
}
