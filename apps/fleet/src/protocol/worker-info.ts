/** What a worker says about itself with every request. */
export interface WorkerInfo {
  readonly uname: string;
  readonly architecture: readonly string[];
  readonly concurrency: number;
  /** In MiB. */
  readonly max_memory: number;
  readonly min_threads: number;
  readonly username: string;
  readonly version: number;
  readonly python_version: readonly number[];
  readonly gcc_version: readonly number[];
  readonly compiler: string;
  readonly unique_key: string;
  readonly modified: boolean;
  readonly worker_arch: string;
  readonly ARCH: string;
  readonly nps: number;
  readonly near_github_api_limit: boolean;
}

/** The same with what the server adds before it is stored. */
export interface StoredWorkerInfo extends WorkerInfo {
  readonly remote_addr: string;
  readonly country_code: string;
}

type Named = Pick<WorkerInfo, 'username' | 'concurrency' | 'unique_key' | 'modified'>;

/** `<user>-<n>cores-<first block of the key>`: what a machine is known by. */
export function shortName({ username, concurrency, unique_key }: Named): string {
  return `${username}-${concurrency}cores-${unique_key.split('-')[0]}`;
}

/** The short name with the second block of the key, and a star if the worker was changed. */
export function longName(info: Named): string {
  return `${shortName(info)}-${info.unique_key.split('-')[1]}${info.modified ? '*' : ''}`;
}
