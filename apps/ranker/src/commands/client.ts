import { UsageError } from 'spillway-cli';

/** The error body of a server. */
interface Failure {
  readonly error?: { readonly code?: string; readonly message?: string };
}

export interface ClientOptions {
  readonly url: string;
  /** The user's key. @default none is sent */
  readonly key?: string | undefined;
}

export interface CallOptions {
  readonly method?: 'GET' | 'POST' | 'DELETE' | undefined;
  readonly body?: unknown;
  /** Of a body that is a text already. @default JSON */
  readonly type?: string | undefined;
}

/** The way from a command to the server. */
export class Client {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** The answer's JSON; throws with what the server said if it refused. */
  async call<Answer>(path: string, options: CallOptions = {}): Promise<Answer> {
    return (await (await this.open(path, options)).json()) as Answer;
  }

  /** The answer itself. */
  async open(path: string, { method = 'GET', body, type }: CallOptions = {}): Promise<Response> {
    const { url, key } = this.#options;
    const headers: Record<string, string> = {};
    if (key !== undefined) headers.authorization = `Bearer ${key}`;
    const hasBody = body !== undefined;
    if (hasBody) headers['content-type'] = type ?? 'application/json';
    const text = type === undefined ? JSON.stringify(body) : String(body);
    const response = await fetch(`${url}${path}`, {
      ...{ method, headers },
      ...(hasBody && { body: text }),
    }).catch((cause: unknown) => {
      const how = 'start it with "ranker serve", or name another with --url';
      throw new Error(`no server can be reached at ${url}; ${how}`, { cause });
    });
    if (!response.ok) throw await refusalOf(response);
    return response;
  }
}

async function refusalOf(response: Response): Promise<Error> {
  const text = await response.text();
  let failure: Failure = {};
  try {
    failure = JSON.parse(text) as Failure;
  } catch {
    // Whatever is there does not speak our language.
  }
  const { code, message = `answered ${response.status}` } = failure.error ?? {};
  if (code === 'KEY_NEEDED') {
    return new UsageError(`${message}; with --key, or in RANKER_KEY`);
  }
  return new Error(code === undefined ? message : `${code}: ${message}`);
}
