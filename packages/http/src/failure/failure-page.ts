import { STATUS_CODES } from 'node:http';
import { html } from '../page/html.ts';
import { page } from '../page/page.ts';
import type { Failure } from './failure.ts';

/** A failure for a person who sees it in a browser. */
export function failurePage({ code, status, message }: Failure, id: string): string {
  const title = `${status} ${STATUS_CODES[status] ?? ''}`.trim();
  const body = html`<h1>${title}</h1>
<p>${message}</p>
<p><code>${code}</code> <code>${id}</code></p>`;
  return String(page({ title, body }));
}

/** Whether a page is wanted rather than JSON: only who names HTML, and likes it as well, is. */
export function wantsPage(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const liking = preference(accept, 'text/html');
  return liking > 0 && liking >= preference(accept, 'application/json');
}

function preference(accept: string, type: string): number {
  for (const part of accept.split(',')) {
    const [name, ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    if (name !== type) continue;
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    return weight === undefined ? 1 : Number(weight.slice(2));
  }
  return 0;
}
