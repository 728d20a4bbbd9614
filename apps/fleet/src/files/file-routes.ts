import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { download } from 'spillway-http';
import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import { apiErrors, baseOf, refuseOtherMethods } from '../read/answers.ts';

const urls = ['/api/nn/:name', '/nn/:name', '/api/pgn/:name', '/api/run_pgns/:name'];
const pgnName = /^([0-9a-f]{24})-(0|[1-9]\d{0,8})\.pgn$/;
const runPgnsName = /^[a-zA-Z0-9]+\.pgn\.gz$/;

/** Nets and games, in constant memory whatever their size. */
export const fileRoutes: FastifyPluginAsync<Context> = async (app, context) => {
  const { lanes, files } = context;
  const lane = lanes.downloads;
  apiErrors(app);
  netRoutes(app, context);
  refuseOtherMethods(app, urls, ['GET', 'HEAD']);
  const route = { config: { lane, domain: 'stream' } } as const;
  app.get('/api/pgn/:name', route, async (request, reply) => {
    const { name } = request.params as { name: string };
    const [, runId = '', taskId] = pgnName.exec(name.toLowerCase()) ?? [];
    const pgn = await files.pgns.find(runId, Number(taskId ?? -1), request.permit.signal);
    if (pgn === undefined) throw fleetError('RECORD_UNKNOWN', `No games for ${name}`);
    reply.headers({ 'content-encoding': 'gzip', 'content-disposition': attachment(name) });
    const version = pgn.sha256;
    return download(reply, { body: [pgn.piece], type: 'application/gzip', version });
  });
  app.get('/api/run_pgns/:name', route, async (request, reply) => {
    const { name } = request.params as { name: string };
    if (!runPgnsName.test(name)) throw fleetError('REQUEST_REFUSED', `Invalid name: ${name}`);
    const [runId = ''] = name.toLowerCase().split('.');
    const { pgns, version } = await files.pgns.ofRun(runId, request.permit.signal);
    if (pgns.length === 0) throw fleetError('RECORD_UNKNOWN', `No games for ${name}`);
    reply.header('content-disposition', attachment(name));
    const body = pgns.map(({ piece }) => piece);
    return download(reply, { body, type: 'application/gzip', version });
  });
};

function netRoutes(app: FastifyInstance, { files, baseUrl, lanes }: Context): void {
  const lane = lanes.downloads;
  const { nets } = files;
  app.get('/api/nn/:name', { config: { lane } }, async (request, reply) => {
    const { name } = request.params as { name: string };
    if (!(await files.obtainNet(name, request.permit.signal))) throw noNet(name);
    await nets.count(name).catch((error: unknown) => {
      // A worker that waits for its net matters more than a number.
      request.log.warn({ err: error }, 'a download was not counted');
    });
    return reply.redirect(`${baseUrl ?? baseOf(request)}/nn/${name}`, 302);
  });
  const route = { config: { lane, domain: 'stream' } } as const;
  app.get('/nn/:name', route, async (request, reply) => {
    const { name } = request.params as { name: string };
    const { signal } = request.permit;
    const net = (await files.obtainNet(name, signal)) ? await nets.find(name, signal) : undefined;
    if (net === undefined) throw noNet(name);
    // Another content would have another name.
    reply.header('cache-control', 'public, max-age=31536000, immutable');
    return download(reply, net);
  });
}

function noNet(name: string): Error {
  return fleetError('RECORD_UNKNOWN', `The network ${name} does not exist`);
}

function attachment(name: string): string {
  return `attachment; filename="${name}"`;
}
