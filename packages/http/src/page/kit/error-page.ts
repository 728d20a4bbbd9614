import { type Html, type HtmlValue, html } from '../html.ts';
import { type FramedPageOptions, framedPage } from './frame.ts';
import { button, facts } from './parts.ts';

export interface ErrorPageOptions {
  /** The status of the answer, which the page shows. */
  readonly status: number;
  /** Code of the error, for the people who run the server. */
  readonly code: string;
  /** Number of the request, to quote. @default none */
  readonly requestId?: string | undefined;
  /** Title in place of that of the status: "There is no run at this address". */
  readonly title?: string | undefined;
  /** Sentences for a person: what happened, and what it means for their work. */
  readonly text?: HtmlValue;
  /** Message of the server: below the text for 4xx, folded away for 5xx. @default none */
  readonly detail?: string | undefined;
  /** Seconds after which the page tries again by itself. @default it does not */
  readonly retrySeconds?: number | undefined;
  /** Links to look further, as a list. @default the start page */
  readonly links?: readonly { readonly name: string; readonly href: string }[] | undefined;
  /** Frame around it, such as the services. @default none */
  readonly frame?: Pick<FramedPageOptions, 'services' | 'places' | 'home' | 'tools'> | undefined;
}

interface Explanation {
  readonly word: string;
  readonly title: string;
  readonly text: string;
}

/** Words for each status: what happened, what it means for the work, what happens next. */
const explanations: Readonly<Record<number, Explanation>> = {
  400: {
    word: 'not understood',
    title: 'This request could not be read',
    text: 'Something in it is not as it must be. Nothing was changed.',
  },
  401: {
    word: 'log in first',
    title: 'Log in to see this',
    text: 'This page is only for people who are logged in. Nothing was changed.',
  },
  403: {
    word: 'not allowed',
    title: 'You may not do this',
    text: 'Your account does not have the right to. Nothing was changed. Ask an approver for it.',
  },
  404: {
    word: 'not here',
    title: 'There is nothing at this address',
    text: 'It may have been deleted, or a part of the address is missing.',
  },
  409: {
    word: 'in conflict',
    title: 'This does not fit any more',
    text: 'Something changed in the meantime. Look at how it is now, then try again.',
  },
  413: {
    word: 'too large',
    title: 'This is too much at once',
    text: 'What you sent is larger than is taken here. Nothing of it was kept.',
  },
  422: {
    word: 'not valid',
    title: 'Something in this is not right',
    text: 'A value breaks a rule. Nothing was changed.',
  },
  429: {
    word: 'too often',
    title: 'Too many tries',
    text: 'You asked more often than is allowed. This try was not made, and nothing was changed.',
  },
  500: {
    word: 'our fault',
    title: 'Something broke here',
    text: 'It is not your fault, and it is written down. If it stays, quote the number below.',
  },
  503: {
    word: 'busy',
    title: 'Busy for a moment',
    text: 'More came in than can be answered at once. Nothing you sent was begun, nothing is lost.',
  },
  504: {
    word: 'too slow',
    title: 'This took too long',
    text: 'It may have been done all the same: look at how it is now before you repeat it.',
  },
  507: {
    word: 'full',
    title: 'There is no room left',
    text: 'The disk of this server is full. Nothing of what you sent was kept.',
  },
};

function explanationOf(status: number): Explanation {
  return (explanations[status] ?? explanations[status < 500 ? 400 : 500]) as Explanation;
}

/** An error page: what happened, what it means, what happens next, what a person can do. */
export function errorPage(options: ErrorPageOptions): Html {
  const { status, code, detail, requestId, retrySeconds, frame } = options;
  const isTheirs = detail !== undefined && status < 500;
  const known = explanationOf(status);
  const title = options.title ?? known.title;
  const { links = [{ name: 'Start page', href: frame?.home ?? '/' }] } = options;
  const details: [string, HtmlValue][] = [['Code', html`<span class="mono">${code}</span>`]];
  if (requestId !== undefined) {
    details.push(['Request', html`<span class="mono">${requestId}</span>`]);
  }
  if (detail !== undefined && !isTheirs) details.push(['Message', detail]);
  const main = html`<section class="fault" aria-labelledby="fault">
${dam(status)}
<p class="code quiet">${status} · ${known.word}</p>
<h1 id="fault">${title}</h1>
<p>${options.text ?? known.text}</p>
${isTheirs && html`<p class="small quiet">${detail}</p>`}
${retrySeconds !== undefined && countdown(retrySeconds)}
<div class="row">${links.map((link) => button({ label: link.name, href: link.href }))}</div>
<details class="small quiet"><summary>For whoever looks after this server</summary>
${facts(details)}</details>
</section>`;
  return framedPage({ ...frame, title, main, refreshSeconds: retrySeconds });
}

/** Says when the page tries again; the script counts down. */
function countdown(seconds: number): Html {
  return html`<div class="countdown" data-again="${seconds}">
<div class="spread"><span>Tries again by itself</span>
<b class="figures">in ${seconds} s</b></div>
<svg class="meter" aria-hidden="true"><rect width="0%"></rect></svg></div>`;
}

/** Picture of a spillway: full when the server is busy, nearly dry when nothing was found. */
function dam(status: number): Html {
  const isFull = status === 429 || status >= 500;
  const water = isFull
    ? html`<rect class="water" x="0" y="22" width="132" height="84"></rect>
<path class="water" d="M120 22H150C190 22 178 92 220 92H340V106H120Z"></path>`
    : html`<rect class="water" x="0" y="86" width="132" height="20"></rect>
<path class="water" d="M214 100H340V106H214Z"></path>`;
  const wave = isFull
    ? 'M4 22q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0' +
      'H150C190 22 178 92 220 92H336'
    : 'M4 86q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0q4 -4 8 0t8 0';
  return html`<svg class="dam" viewBox="0 0 340 112" aria-hidden="true">
${water}<path class="wall" d="M118 34H140C178 34 170 100 212 100V106H118Z"></path>
<path class="wave" d="${wave}"></path><path class="ground" d="M0 106H340"></path></svg>`;
}
