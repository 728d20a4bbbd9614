import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { Gate, Lane } from 'spillway';
import { uploads } from 'spillway-http';
import type { Context } from '../context.ts';
import { demand } from '../errors.ts';
import { receivePgn } from '../files/pgns.ts';
import {
  readAccess,
  requireFor,
  type WorkerInfo,
  type WorkerRequest,
} from '../protocol/read-request.ts';
import { baseOf } from '../read/answers.ts';
import { logWorker } from '../world/manage.ts';
import { type Decision, type StoredWorkerInfo, withoutHistory } from '../world/records.ts';
import { type AssignedTask, type NoTask, requestTask } from '../world/request-task.ts';
import { beat, failTask, requestSpsa, stopByWorker, updateTask } from '../world/update-task.ts';
import { demandOwner, type World } from '../world/world.ts';
import { type WorkerCall, WorkerScope } from './worker-scope.ts';

/** The protocol's version; a worker that knows only a smaller one replaces itself. */
const workerVersion = 325;
/** Thousands of beats may wait in memory, so each must be small. */
const beatBytesMax = 262_144;
/** A failed task comes with all output of the compiler; the log keeps its beginning. */
const failureBytesMax = 4 * 1_048_576;
const busyText = 'The server is too busy to give out tasks now; ask again later.';

type TaskEndpoint = 'update_task' | 'beat' | 'request_spsa' | 'failed_task' | 'stop_run';

/** The nine endpoints that workers use. */
export const workerApi: FastifyPluginAsync<Context> = async (app, context) => {
  const { primary, storage } = context;
  const scope = new WorkerScope(app, context);

  /** Decides about the task that a request names, after the checks that all of them share. */
  const onTask = <Name extends TaskEndpoint, Reply>(
    name: Name,
    { request }: WorkerCall,
    work: (
      world: World,
      task: ReturnType<World['find']> & object,
      asked: ReturnType<typeof requireFor<Name>>,
    ) => Decision<Reply>,
  ): Promise<Reply> =>
    primary.decide((world) => {
      const task = world.find(request);
      const asked = requireFor(name, request);
      return work(world, task as NonNullable<typeof task>, asked);
    });

  scope.post('request_version', async (http) => {
    await scope.admit(http.body, http.permit, http.ip);
    return { version: workerVersion };
  });
  const busy = { task_waiting: false, info: busyText };
  const giveTask = async ({ user, request, http }: WorkerCall) => {
    primary.world.find(request);
    const info = storedInfo(request.worker_info, http);
    const baseUrl = context.baseUrl ?? baseOf(http);
    const { machine_limit: machineLimit } = user;
    const reply = await primary.decide((world) =>
      requestTask(world, { info, machineLimit, baseUrl }),
    );
    return taskReply(reply, context);
  };
  scope.route('request_task', giveTask, { busy });
  scope.route('update_task', (asked) =>
    onTask('update_task', asked, (world, task, { worker_info: info, stats, spsa }) =>
      updateTask(world, task, { info, stats, spsa }),
    ),
  );
  const beatTask = (asked: WorkerCall) => onTask('beat', asked, beat);
  scope.route('beat', beatTask, { bodyLimit: beatBytesMax });
  scope.route('request_spsa', (asked) => onTask('request_spsa', asked, requestSpsa));
  const fail = (asked: WorkerCall) =>
    onTask('failed_task', asked, (world, task, { message = '' }) => failTask(world, task, message));
  scope.route('failed_task', fail, { bodyLimit: failureBytesMax });
  scope.route('stop_run', async (asked) => {
    const cpuHours = await storage.cpuHours(asked.user.username);
    const { refused } = await onTask('stop_run', asked, (world, task, { message = '' }) =>
      stopByWorker(world, task, { message, cpuHours }),
    );
    if (refused !== undefined) throw refused;
    return {};
  });
  scope.route('worker_log', async ({ request }) => {
    await primary.change((world) => {
      const task = world.find(request);
      const { worker_info, message = '' } = requireFor('worker_log', request);
      return logWorker(world, worker_info, message, task);
    });
    return {};
  });
  await app.register(uploadPgn, context);
};

/** Adds the address and the country of the request to the description of the worker. */
function storedInfo(info: WorkerInfo, { ip, headers }: FastifyRequest): StoredWorkerInfo {
  const [country] = [headers['x-country-code']].flat();
  const isKnown = country !== undefined && country !== '' && country !== 'ZZ';
  return { ...info, remote_addr: ip, country_code: isKnown ? country.slice(0, 2) : '?' };
}

/** The reply with a task: with the checksum of the book, without the history of a tuning. */
function taskReply(reply: AssignedTask | NoTask, { files }: Context): object {
  if (!('run' in reply)) return reply;
  const { args } = reply.run;
  const told = { ...withoutHistory(args), book_sri: files.books.sri(args.book) };
  return { ...reply, run: { ...reply.run, args: told } };
}

/** The longest body; base64 makes a file a third longer. */
const bodyBytesMax = 200 * 2 ** 20;
/** The most text in a file of games, which gzip makes five times smaller or more. */
const textBytesMax = 2 ** 30;
/** Files that are decompressed at once, on threads that passwords and files need, too. */
const checksMax = 2;
const waitingMax = 1_000;
/**
 * Official workers send the games last. Uploads that begin with them may be a stranger's: so many
 * at once, each with so many bytes of games.
 */
const strangersMax = 8;
const strangerBytesMax = 8 * 2 ** 20;

/** Receives the games of a task, active or not, on any instance, in constant memory. */
const uploadPgn: FastifyPluginAsync<Context> = async (app, context) => {
  const scope = new WorkerScope(app, context);
  await app.register(uploads);
  const checks = new Gate({ limit: checksMax, queueMax: waitingMax });
  const { deadlineMs } = context.lanes.workers.upload_pgn;
  const few = { limit: { fixed: strangersMax }, queueMax: 0, deadlineMs };
  const strangers = new Lane({ name: 'stranger_uploads', ...few, clock: context.clock });
  const gates = { checks, strangers, strangerBytesMax };
  const limits = { ...gates, games: context.files.pgns, bodyBytesMax, textBytesMax };
  const work = async (http: FastifyRequest) => {
    const authenticate = async (fields: unknown) => {
      try {
        readAccess(fields);
      } catch {
        return false;
      }
      await scope.admit(fields, http.permit, http.ip);
      return true;
    };
    const admit = async (body: unknown) => {
      const { request } = await scope.read(body, http.permit, http.ip);
      await assertOwner(context, request);
      const { run_id, task_id } = requireFor('upload_pgn', request);
      return { run_id: run_id.toLowerCase(), task_id };
    };
    await receivePgn(http, { ...limits, authenticate, admit }, http.permit.signal);
    return {};
  };
  scope.post('upload_pgn', work, { bodyLimit: bodyBytesMax, anywhere: true });
};

/** Checks the run, the task and its owner; instances that do not decide use the database. */
async function assertOwner({ source }: Context, request: WorkerRequest): Promise<void> {
  const { run_id, task_id } = request;
  if (run_id === undefined) return;
  const id = run_id.toLowerCase();
  demand((await source.run(id)) !== undefined, `Invalid run_id: ${run_id}`);
  if (task_id === undefined) return;
  const task = await source.task(id, task_id);
  demand(task !== undefined, `Invalid task_id: ${task_id}`);
  demandOwner(request, task);
}
