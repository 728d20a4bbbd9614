import { STATUS_CODES } from 'node:http';
import type { Failure } from './failure.ts';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] as string);
}

/** A failure for a person who sees it in a browser. */
export function failurePage({ code, status, message }: Failure): string {
  const title = `${status} ${STATUS_CODES[status] ?? ''}`.trim();
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(title)}</title>
<h1>${escaped(title)}</h1>
<p>${escaped(message)}</p>
<p><code>${escaped(code)}</code></p>
</html>
`;
}

/** Whether a page is wanted rather than JSON: only who names HTML, and likes it as well, is. */
export function wantsPage(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const page = preference(accept, 'text/html');
  return page > 0 && page >= preference(accept, 'application/json');
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
