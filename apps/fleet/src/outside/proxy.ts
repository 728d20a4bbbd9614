import { type Dispatcher, EnvHttpProxyAgent } from 'undici';

/** The standard variables, each in small or capital letters. */
export type ProxyVariables = Readonly<Record<string, string | undefined>>;

/** The way to hosts outside: directly, or as `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say. */
export function outsideDispatcher(variables: ProxyVariables): Dispatcher {
  const of = (name: string) => variables[name.toLowerCase()] ?? variables[name] ?? '';
  return new EnvHttpProxyAgent({
    httpProxy: of('HTTP_PROXY'),
    httpsProxy: of('HTTPS_PROXY'),
    noProxy: of('NO_PROXY'),
    connect: { timeout: 3_000 },
    // A host that accepts calls and says nothing is the deadline's matter.
    connections: 8,
  });
}
