import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { SpillwayError } from 'spillway';
import { html, httpError, uploads } from 'spillway-http';
import {
  button,
  card,
  decimal,
  hiddenFields,
  notice,
  pageHead,
  stats,
  tick,
} from 'spillway-http/kit';
import { netBytesMax } from '../files/nets.ts';
import { patterns } from '../protocol/patterns.ts';
import type { QueryTexts } from '../read/answers.ts';
import type { NetRow } from '../storage/fleet-schema.ts';
import { timeText } from './events.ts';
import { type ListColumn, listing, numbers, searchForm, texts } from './listing.ts';
import type { PageContext } from './pages.ts';
import { runUrl } from './run-cells.ts';
import {
  addPage,
  framed,
  goTo,
  refusalFor,
  type Shown,
  tokenField,
  type Visit,
  visitOf,
} from './visit.ts';

/** `/nns` lists nets, `/upload` takes one. */
export async function netPages(app: FastifyInstance, context: PageContext): Promise<void> {
  addPage(app, context, '/nns', {
    get: async ({ query }) => netsPage(await context.files.nets.list(), query),
  });
  addPage(app, context, '/upload', { for: 'user', get: async (visit) => uploadPage(visit) });
  await app.register(uploadRoute, context);
}

const uploadRoute: FastifyPluginAsync<PageContext> = async (app, context) => {
  await app.register(uploads);
  // The token is a field of the body, which is read as it comes: so it is checked there.
  const config = { lane: context.lanes.uploads, domain: 'stream', csrf: false } as const;
  app.post('/upload', { config }, async (request, reply) => {
    const visit = visitOf(request, reply);
    return refusalFor(visit, 'user') ?? (await receiveNet(context, visit));
  });
};

async function receiveNet(context: PageContext, visit: Visit) {
  const { request, person } = visit;
  if (!request.isMultipart()) throw httpError('BODY_TYPE', 'multipart/form-data is taken');
  const limits = { fileSize: netBytesMax + 1, files: 1, fields: 10 };
  let isOurs = false;
  for await (const part of request.parts({ limits })) {
    if (part.type === 'field') {
      if (part.fieldname !== 'csrf_token') continue;
      request.checkCsrf(part.value);
      isOurs = true;
      continue;
    }
    if (!isOurs) throw httpError('CSRF_REFUSED', 'the change was not made: it has no token');
    const { filename } = part;
    if (!patterns.netName.test(filename)) {
      return framed(context, visit, uploadPage(visit, 'A net is called nn-0123456789ab.nnue.'));
    }
    try {
      const user = person?.username ?? '';
      const { name } = await context.files.nets.receive(part.file, { user, name: filename });
      return goTo(visit, '/nns', `${name} is here.`);
    } catch (error) {
      const known = ['REQUEST_REFUSED', 'REQUEST_TOO_LARGE'];
      if (!(error instanceof SpillwayError) || !known.includes(error.code)) throw error;
      return framed(context, visit, uploadPage(visit, error.message));
    }
  }
  return framed(context, visit, uploadPage(visit, 'Choose a file first.'));
}

function uploadPage({ reply }: Visit, problem?: string): Shown {
  const told =
    problem !== undefined && notice({ verdict: 'Not taken.', text: problem, tone: 'bad' });
  const body = html`<form class="form" method="post" action="/upload"
 enctype="multipart/form-data">${tokenField(reply)}
<div class="field wide"><label for="network">Net</label>
<input class="input" id="network" type="file" name="network" accept=".nnue" required>
<p class="hint">Its name is nn-, the first 12 digits of its SHA-256, and .nnue. It has at most
200 MB.</p></div>
<div class="row wide">${button({ label: 'Upload', look: 'main' })}<a href="/nns">All nets</a></div>
</form>`;
  const main = html`<div class="narrow">${pageHead({ title: 'Upload a net' })}${told}
${card({ id: 'upload', title: 'File', body })}</div>`;
  return { title: 'Upload a net', place: '/nns', main, status: problem === undefined ? 200 : 422 };
}

function netsPage(nets: readonly NetRow[], query: QueryTexts): Shown {
  const path = '/nns';
  const has = (text: string, part: string | undefined) =>
    text.toLowerCase().includes((part ?? '').toLowerCase());
  const rows = nets.filter(
    ({ name, user, is_master }) =>
      has(name, query.network_name) &&
      has(user, query.user) &&
      (!query.master_only || is_master === 1),
  );
  const figures = stats([
    { name: 'Nets', value: decimal(nets.length) },
    { name: 'In master', value: decimal(nets.filter(({ is_master }) => is_master === 1).length) },
    { name: 'Tested', value: decimal(nets.filter(({ first_id }) => first_id !== null).length) },
    { name: 'Downloads', value: decimal(nets.reduce((sum, { downloads }) => sum + downloads, 0)) },
  ]);
  // An empty value of its own says that the box was emptied.
  const more = html`<input class="input" name="user" value="${query.user ?? ''}" aria-label="User"
 placeholder="User">${hiddenFields({ master_only: '' })}${tick({
   name: 'master_only',
   label: 'In master',
   value: '1',
   checked: Boolean(query.master_only),
 })}${button({ label: 'Find' })}`;
  const actions = button({ label: 'Upload a net', href: '/upload', look: 'main' });
  const main = html`${pageHead({ title: 'Nets', actions })}
<div class="stack">${figures}${listing({
    id: 'nets',
    title: 'Nets',
    columns: netColumns,
    rows,
    key: ({ name }) => name,
    path,
    query,
    pageSize: 25,
    hasAll: true,
    order: ['last_test', true],
    tools: searchForm({ path, query, name: 'network_name', label: 'Name of the net', more }),
    nothing: 'Networks of engines are listed here, with the runs that use them.',
  })}</div>`;
  return { title: 'Nets', place: path, main };
}

const testCell = (date: number | null, id: string | null) =>
  date === null || id === null ? '–' : html`<a href="${runUrl(id)}">${timeText(date)}</a>`;

const netColumns: readonly ListColumn<NetRow>[] = [
  texts('Net', 'name', ({ name }) => name, {
    cell: ({ name, is_master }) => html`<a class="mono" href="/api/nn/${name}">${name}</a>
${is_master === 1 && html`<span class="tag">master</span>`}`,
  }),
  texts('User', 'user', ({ user }) => user),
  numbers('First test', 'first_test', ({ first_date }) => first_date ?? 0, {
    cell: ({ first_date, first_id }) => testCell(first_date, first_id),
  }),
  numbers('Last test', 'last_test', ({ last_date }) => last_date ?? 0, {
    cell: ({ last_date, last_id }) => testCell(last_date, last_id),
  }),
  numbers('Downloads', 'downloads', ({ downloads }) => downloads),
];
