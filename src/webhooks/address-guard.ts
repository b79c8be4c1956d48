import { lookup, Resolver } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { StatefoldError } from '../core/errors.js';

export interface AddressGuardOptions {
  /** Private, loopback and other special addresses too: for development, and where the network itself is the boundary. */
  readonly allowPrivate: boolean;
  /** All addresses of a host name, as text; rejects or is empty where there is none. Default: DNS, see `resolverFor`. */
  readonly resolve?: ResolveHost;
}

export type ResolveHost = (hostname: string) => Promise<readonly string[]>;

const MAX_URL = 2_048;

/**
 * Checks a webhook URL as it is uploaded: scheme, no credentials, and that its host resolves to public addresses only. An answer of DNS
 * may change, so `guardedLookup` checks again what is dialled.
 * @throws StatefoldError WEBHOOK_URL_REFUSED with a sentence for the one who uploaded it.
 */
export async function assertWebhookUrlAllowed(url: string, options: AddressGuardOptions): Promise<void> {
  const parsed = parseWebhookUrl(url);
  const host = literalHost(parsed);
  if (host !== undefined) assertAddressAllowed(host, options.allowPrivate);
  else await resolveAllowed(parsed.hostname, options);
}

/** Scheme, length and credentials. Decimal, octal and hexadecimal IPv4 hosts come out of the URL parser in dotted form. */
export function parseWebhookUrl(url: string): URL {
  if (url.length > MAX_URL) throw refused(`the webhook URL is longer than ${MAX_URL} characters`);
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined) throw refused('the webhook URL is not a valid URL');
  if (parsed.protocol !== 'https:' && parsed.protocol !== 'http:')
    throw refused('the webhook URL must begin with https:// or http://');
  if (parsed.username !== '' || parsed.password !== '')
    throw refused('the webhook URL must not hold a user name or a password');
  return parsed;
}

/** The address where the host is one. Node dials those without a lookup, so they need a check of their own. */
export function literalHost(url: URL): string | undefined {
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname;
  return ipaddr.isValid(host) ? host : undefined;
}

/** @throws StatefoldError WEBHOOK_URL_REFUSED unless webhooks may be sent to the address. */
export function assertAddressAllowed(address: string, allowPrivate: boolean): void {
  if (allowPrivate) return;
  const reason = specialRange(address);
  // The address itself isn't told: a tenant must not learn the names of the inside through ours.
  if (reason !== undefined)
    throw refused(
      `the webhook's host has an address that is not public (${reason}); webhooks go to public addresses only, unless the service is started with WEBHOOK_ALLOW_PRIVATE=true`,
    );
}

/** Resolves once and checks every address. @throws StatefoldError WEBHOOK_URL_REFUSED */
async function resolveAllowed(hostname: string, options: AddressGuardOptions): Promise<readonly string[]> {
  const resolve = options.resolve ?? resolverFor(options.allowPrivate);
  let addresses: readonly string[];
  try {
    addresses = await resolve(hostname);
  } catch (error) {
    throw refused(`the webhook's host ${hostname} can't be resolved to an address`, error);
  }
  if (addresses.length === 0) throw refused(`the webhook's host ${hostname} has no address`);
  for (const address of addresses) assertAddressAllowed(address, options.allowPrivate);
  return addresses;
}

/** Addresses of a host that an attempt may try. */
const MOST_DIALLED = 8;

/**
 * A lookup for `net.connect` that answers with checked addresses only: what was checked is what is dialled, whatever DNS says a
 * moment later.
 */
export function guardedLookup(options: AddressGuardOptions): LookupFunction {
  return (hostname, { all }, callback) => {
    resolveAllowed(hostname, options).then(
      (addresses) => {
        // `net` tries each in turn, and DNS may answer with thousands.
        const found = addresses.slice(0, MOST_DIALLED).map((address) => ({
          address,
          family: ipaddr.parse(address).kind() === 'ipv4' ? 4 : 6,
        }));
        const first = found[0] as (typeof found)[number];
        if (all === true) callback(null, found);
        else callback(null, first.address, first.family);
      },
      (error: unknown) => callback(error as NodeJS.ErrnoException, '', 0),
    );
  };
}

/**
 * Public hosts are asked of DNS itself, by the c-ares library: the system's resolver would read the hosts file, and a slow name server would
 * hold the few threads that all file access of the process shares. Where private addresses are allowed it is the system's.
 */
function resolverFor(allowPrivate: boolean): ResolveHost {
  if (allowPrivate) return async (hostname) => (await lookup(hostname, { all: true })).map(({ address }) => address);
  return async (hostname) => {
    const resolver = new Resolver({ timeout: 2_000, tries: 2 });
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length === 0 && answers[0].status === 'rejected') throw answers[0].reason;
    return addresses;
  };
}

/** The name of the special range that an address is in; undefined: it is a public one. Whatever isn't known to be public is special. */
export function specialRange(text: string): string | undefined {
  if (!ipaddr.isValid(text)) return 'not an address';
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv6) {
    if (address.isIPv4MappedAddress()) return specialRange(address.toIPv4Address().toString());
    // NAT64 (RFC 6052): the last 32 bits are the IPv4 address that is reached.
    if (address.match(NAT64)) return specialRange(new ipaddr.IPv4(address.toByteArray().slice(12)).toString());
    if (!address.match(GLOBAL_UNICAST)) return address.range() === 'unicast' ? 'reserved' : address.range();
  }
  if (text === AZURE_METADATA) return 'metadata';
  const range = address.range();
  return range === 'unicast' ? undefined : range;
}

const NAT64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('64:ff9b::'), 96];
const GLOBAL_UNICAST: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3];
/** A platform service on a public address, reachable only from inside that cloud. */
const AZURE_METADATA = '168.63.129.16';

const refused = (message: string, cause?: unknown): StatefoldError =>
  new StatefoldError('WEBHOOK_URL_REFUSED', message, { cause });
