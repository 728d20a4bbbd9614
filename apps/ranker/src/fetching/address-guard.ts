import { promises as dns, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { isPublicAddress } from './public-address.ts';
import { UnavailableError } from './unavailable.ts';

export interface AddressGuardOptions {
  /** Allows an address that is not public. @default none is allowed */
  readonly allow?: ((address: string) => boolean) | undefined;
  /** Finds the addresses of a name. @default the system's resolver */
  readonly resolve?: ((name: string) => Promise<readonly LookupAddress[]>) | undefined;
}

/**
 * Decides which machines may be reached for others. All connections use its `lookup`, so that a
 * name is resolved once and the very address that was checked is the one connected to.
 */
export class AddressGuard {
  readonly #allow: (address: string) => boolean;
  readonly #resolve: (name: string) => Promise<readonly LookupAddress[]>;

  constructor(options: AddressGuardOptions = {}) {
    this.#allow = options.allow ?? (() => false);
    this.#resolve = options.resolve ?? ((name) => dns.lookup(name, { all: true }));
  }

  /** Throws if a host is an address that may not be reached; `lookup` checks names. */
  check(host: string): void {
    const address = host.replace(/^\[(.*)\]$/, '$1');
    if (isIP(address) !== 0) this.#checkAddress(address, address);
  }

  /** The `lookup` of `net.connect`, which calls it for names only, never for addresses. */
  readonly lookup: LookupFunction = (name, options, callback) => {
    const found = this.#find(name);
    found.then(
      (addresses) => {
        const { family } = options;
        const fitting = addresses.filter((one) => !family || one.family === family);
        const [first = addresses[0]] = fitting;
        if (options.all) callback(null, fitting.length > 0 ? fitting : addresses);
        else callback(null, first?.address ?? '', first?.family);
      },
      (error) => callback(error, []),
    );
  };

  async #find(name: string): Promise<LookupAddress[]> {
    const found = await this.#resolve(name).catch((error: Error) => {
      const isTemporary = Object(error).code === 'EAI_AGAIN';
      throw new UnavailableError('dns', `${name} has no address: ${error.message}`, isTemporary);
    });
    if (found.length === 0) throw new UnavailableError('dns', `${name} has no address`);
    // One private address among public ones refuses the name: an honest name has no such mixture.
    for (const { address } of found) this.#checkAddress(address, name);
    return [...found];
  }

  #checkAddress(address: string, host: string): void {
    if (isPublicAddress(address) || this.#allow(address)) return;
    throw new UnavailableError(
      'private_address',
      `${host} is not on the public internet; --allow-private names networks that may be fetched`,
    );
  }
}
