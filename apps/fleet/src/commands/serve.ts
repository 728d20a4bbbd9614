import { SpillwayError } from 'spillway';
import {
  demandListenable,
  listenFault,
  makeDatabaseFolder,
  makeFolder,
  ServiceStop,
  UsageError,
} from 'spillway-cli';
import { type OperatorRemote, operatorSocket } from 'spillway-http';
import { type FleetService, openFleet } from '../open-fleet.ts';
import { operatorApi } from '../server/operator-api.ts';
import { type Settings, settingsReader } from '../settings.ts';
import { randomPassword } from '../users/password.ts';
import { approversGroup } from '../users/users.ts';
import { systemUser } from '../world/records.ts';
import { leaseMs } from './operator.ts';
import { demandUsedDatabase, noteDatabase } from './used-database.ts';

const firstUser = 'admin';

/** The settings whose values operators see; of the others they see only whether they are set. */
const shown = settingsReader.names.filter((name) => settingsReader.rules[name].hides === undefined);

/** Time for a proxy to notice that the server is about to close, in milliseconds. */
const lameDuckMs = 2_000;

/** Serves until a signal to stop; gives the exit code. */
export async function serve(settings: Settings): Promise<number> {
  // First of all, since a signal may come before the server is ready.
  const stopping = new ServiceStop();
  // A start that is refused leaves nothing behind.
  const remote = remoteOf(settings);
  await demandUsedDatabase(settings);
  const ports = { '--port': settings.port, ...(remote && { '--operator-port': remote.port }) };
  const address = { host: settings.host, ports };
  await demandListenable(address);
  await makeDatabaseFolder(settings.database);
  await makeFolder(settings.data);
  const fleet = await openFleet({
    ...settings,
    folder: settings.data,
    baseUrl: settings.publicUrl,
    trustProxy: settings.trustProxy.length > 0 ? settings.trustProxy : false,
    lameDuckMs: settings.trustProxy.length > 0 ? lameDuckMs : 0,
    log: settings.log || undefined,
    github: githubOf(settings),
    proxy: process.env,
    operator: {
      socket: operatorSocket(settings.data),
      remote,
      config: { values: { ...settings }, shown },
    },
    leaseMs,
  });
  const { service, server } = fleet;
  await server.operator.app.register(operatorApi, fleet);
  await service.start().catch((error: unknown) => {
    throw listenFault(error, address);
  });
  await noteDatabase(settings);
  await greet(fleet, settings);
  process.send?.({ ready: true });
  return await stopping.stop(service);
}

function remoteOf({ host, operatorPort: port, operatorToken: token }: Settings) {
  if (port === undefined) return undefined;
  if (token === undefined) throw new UsageError('--operator-port: needs --operator-token');
  return { host, port, token } satisfies OperatorRemote;
}

function githubOf(settings: Settings): Parameters<typeof openFleet>[0]['github'] {
  if (!settings.github) return undefined;
  const { githubUrl: apiUrl, githubRawUrl: rawUrl, githubToken: token } = settings;
  return { apiUrl, rawUrl, token };
}

/** The address by which this machine itself reaches the server. */
function near(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

/** Prints the address of the server and, at the very first start, the first account. */
async function greet({ server, users, primary }: FleetService, settings: Settings): Promise<void> {
  const { url } = server;
  process.stdout.write(`Fleet is ready at ${url}, with its data in ${settings.data}\n`);
  if (!primary.isPrimary) {
    process.stdout.write('Another instance decides; this one will when that one is gone.\n');
    return;
  }
  const known = await users.list();
  if (known.length > 0) {
    process.stdout.write(
      `Accounts: ${known.length}; a lost password: npx fleet user password <name>\n`,
    );
    return;
  }
  const password = randomPassword();
  try {
    const groups = [approversGroup];
    await users.add({ username: firstUser, password, pending: false, groups }, systemUser);
  } catch (error) {
    if (error instanceof SpillwayError && error.code === 'USER_EXISTS') return;
    throw error;
  }
  // For `npm start`, whose console shows it too.
  process.send?.({ login: { user: firstUser, secret: password } });
  const { hostname, port } = new URL(near(url));
  process.stdout.write(`
This is its first start. The first account, shown only now:
  user      ${firstUser}
  password  ${password}

What to do next, in another terminal:
  export FLEET_DATA='${settings.data}'
  npx fleet seed                 a user and two runs to try a worker with
  npx fleet user add <name>      an account for everyone who gives machines
  npx fleet book add <file>      openings, then runs: npx fleet run add --help
A worker comes with:
  python3 worker.py <name> <password> --protocol http --host ${hostname} --port ${port}
`);
}
