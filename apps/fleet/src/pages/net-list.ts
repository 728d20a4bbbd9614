import type { FastifyPluginAsync } from 'fastify';
import { SpillwayError } from 'spillway';
import { html, httpError, uploads } from 'spillway-http';
import { button, card, decimal, hiddenFields, notice, stats, tick } from 'spillway-http/kit';
import { netBytesMax } from '../files/nets.ts';
import { patterns } from '../protocol/patterns.ts';
import type { NetRow } from '../storage/fleet-schema.ts';
import { timeText } from './events.ts';
import { type ListColumn, listPage, numbers, texts } from './listing.ts';
import type { PageContext } from './pages.ts';
import type { Pages } from './routes.ts';
import { runUrl } from './run/cells.ts';
import { type Shown, Visit } from './visit.ts';

/** `/nns` lists nets, `/upload` takes one. */
export const netPages: Pages = {
  '/nns': { get: netsPage },
  '/upload': { for: 'user', get: (visit) => uploadPage(visit) },
};

/** Takes a net that a person sends. */
export const netUpload: FastifyPluginAsync<PageContext> = async (app, context) => {
  await app.register(uploads);
  // The token is a field of the body, which is read as it comes: so it is checked there.
  const config = { lane: context.lanes.uploads, domain: 'stream', csrf: false } as const;
  app.post('/upload', { config }, async (request, reply) => {
    const visit = new Visit(context, request, reply);
    return visit.refusalFor('user') ?? (await receiveNet(visit));
  });
};

async function receiveNet(visit: Visit) {
  const { request, person, context } = visit;
  const refuse = (problem: string) => visit.framed(uploadPage(visit, problem));
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
    if (!patterns.netName.test(filename)) return refuse('A net is called nn-0123456789ab.nnue.');
    try {
      const user = person?.username ?? '';
      const { name } = await context.files.nets.receive(part.file, { user, name: filename });
      return visit.goTo('/nns', `${name} is here.`);
    } catch (error) {
      const known = ['REQUEST_REFUSED', 'REQUEST_TOO_LARGE'];
      if (!(error instanceof SpillwayError) || !known.includes(error.code)) throw error;
      return refuse(error.message);
    }
  }
  return refuse('Choose a file first.');
}

function uploadPage({ token }: Visit, problem?: string): Shown {
  const told =
    problem !== undefined && notice({ verdict: 'Not taken.', text: problem, tone: 'bad' });
  const body = html`<form class="form" method="post" action="/upload"
 enctype="multipart/form-data">${token}
<div class="field wide"><label for="network">Net</label>
<input class="input" id="network" type="file" name="network" accept=".nnue" required>
<p class="hint">Its name is nn-, the first 12 digits of its SHA-256, and .nnue. It has at most
200 MB.</p></div>
<div class="row wide">${button({ label: 'Upload', look: 'main' })}<a href="/nns">All nets</a></div>
</form>`;
  const main = html`${told}${card({ id: 'upload', title: 'File', body })}`;
  const status = problem === undefined ? 200 : 422;
  return { title: 'Upload a net', place: '/nns', look: 'narrow', main, status };
}

async function netsPage(visit: Visit): Promise<Shown> {
  const { query, context } = visit;
  const nets = await context.files.nets.list();
  const user = (query.user ?? '').toLowerCase();
  const count = (isCounted: (net: NetRow) => boolean) => decimal(nets.filter(isCounted).length);
  // An empty value of its own says that the box was emptied.
  const more = html`<input class="input" name="user" value="${query.user ?? ''}" aria-label="User"
 placeholder="User">${hiddenFields({ master_only: '' })}${tick({
   name: 'master_only',
   label: 'In master',
   value: '1',
   checked: Boolean(query.master_only),
 })}${button({ label: 'Find' })}`;
  return listPage({
    visit,
    id: 'nets',
    title: 'Nets',
    head: { actions: button({ label: 'Upload a net', href: '/upload', look: 'main' }) },
    above: stats([
      { name: 'Nets', value: decimal(nets.length) },
      { name: 'In master', value: count(({ is_master }) => is_master === 1) },
      { name: 'Tested', value: count(({ first_id }) => first_id !== null) },
      { name: 'Downloads', value: decimal(nets.reduce((sum, net) => sum + net.downloads, 0)) },
    ]),
    columns: netColumns,
    rows: nets.filter((net) => {
      const isOfUser = net.user.toLowerCase().includes(user);
      return isOfUser && (!query.master_only || net.is_master === 1);
    }),
    key: ({ name }) => name,
    path: '/nns',
    pageSize: 25,
    hasAll: true,
    order: ['last_test', true],
    search: { name: 'network_name', label: 'Name of the net', more },
    text: ({ name }) => name,
    nothing: 'Networks of engines are listed here, with the runs that use them.',
  });
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
