"""Redaction of providers' replies before they are stored or shown.

A server may quote addresses, subjects or names in any encoding, and no pattern finds all of them.
So this is an allowlist: status codes and words that mail servers commonly use are kept, and
everything else is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jobs.fields import HIDDEN

REASON_LIMIT = 300
_READ = 2000
"""How many characters of a reply are read."""
_EDGE = "<>()[]{}\"'.,;:!?*-"
_CODE = re.compile(r"(?:smtp;)?[2-5][0-9][0-9](?:-[245]\.[0-7]\.[0-9]{1,3})?\Z")
_ENHANCED = re.compile(r"[245]\.[0-7]\.[0-9]{1,3}\Z")
_LETTERS = r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017f"
_PLAIN = re.compile(rf"[{_LETTERS}/_.:;,?=&()'-]+\Z")
_RUN = re.compile(rf"[{_LETTERS}]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ID = re.compile(r"[\x21-\x7e]{1,300}\Z")
_SHORTEST_NAME = 6
"""A shorter local part may occur in an opaque id by chance."""

# Never add a word that is also a name or surname, however common it is.
_ENGLISH = """
  a abort aborted about above abuse accept acceptable accepted accepting accepts access account
  accounts action active actively activity add added additional address addressed addresses
  administrative administratively administrator after again against algorithm alias all allow
  allowed allows already also although always an and anonymous another answer answers any
  anybody anymore anything api appear appears application arc are arent arn array as asked at
  attached attachment attachments attempt attempted attempts attribute auth authenticate
  authenticated authenticating authentication authorised authority authorization authorize
  authorized auto available away back bad badly bandwidth banned bare based be because been
  before begin behavior being below big blacklist blacklisted block blocked blocking blocklist
  blocklisted blocks body bot both bounce bounced bounces broken buffer bulk busy but by bye
  bytes cached calculated call came cancelled cannot cant capability capacity category cause
  caused center certificate change changed character characters check checked checker checks
  cipher classified clean client closed closes closing code codes com come comes command
  commands comment common communication community complaint complaints complete compliance
  concurrent condition config configuration configured confirm confirmed conform conforms
  connect connected connecting connection connections consider consult contact contacts contain
  contained containing contains content contents context continue control correct correctly
  corrupt could couldnt count cr create created creating credential credentials crlf currently
  custom daemon daily damaged data database date dates decode decoded deferred defined delay
  delayed delete deleted deliver delivered delivering delivery demand denied deny depleted
  describe described destination destinations details detected detection determine determined
  device dictionary did didnt different digest direct directory disabled disallowed discarded
  disconnected disconnecting disk dkim dmarc dns dnsbl dnssec do document does doesnt domain
  domains dont double down downstream due duplicate during dynamic each ehlo either elsewhere
  email emails empty enable enabled encode encoded encoding encountered encrypted encryption end
  endpoint enforced engine enhanced enough ensure entry error errors esmtp established etc event
  every everything exceed exceeded exceeding exceeds exception excessive executable execute
  executed exist existing exists expected expired explanation extended extension external
  facility fail failed failing fails failure failures fatal fault feature few field file files
  filter filtered filtering filters final find first fixed flagged following for forbidden
  forged format forward forwarded forwarding found fraud frequency from full further gaierror
  gateway general generated generic get given global go goes going goodbye greeting greylist
  greylisted greylisting group had handle handled handshake hang harmful has hasnt have having
  header headers hello helo help here high history hit home hop hops host hostname hosts hour
  hourly hours how however html http https hung id identifier identifies identities identity if
  illegal immediately implemented import improperly in inactive inbound inbox included including
  incoming incomplete incorrect indicates infected info information input installed instance
  insufficient intended interface internal internet interrupted into invalid involved io ip ips
  ipv is isnt issue issued issues it its itself json keep key known large last later latest
  learn least length less level lf limit limitation limited limiting limits line lines link
  links list listed listing lists load local locally location locked log login lookup loop loops
  lost made mail mailbox mailboxes mailer mailfrom mailhost mailing mails maintenance malformed
  malware managed manually many match matched matches maximum means mechanism media memory
  message messageid messages metadata method mfa mime minimum minute minutes misconfigured
  missing mode moderation moderator month monthly more moved multiple must mx my name names
  necessary need needed needs negative network never new next no nobody none nonexistent nor not
  nothing notification notified notify now null number numbers object of off offered office
  officer offline ok okay old on once one ones only oops open operation operational opt option
  or order orderly org original originating os other others otherwise our out outage outbound
  outdated outgoing over overloaded overquota own owned owner param parameter parameters params
  parse parsing part partial participant parts party password path pause paused pending per
  perform period permanent permanently permission permissions permitted phish phishing pipe
  pipelining please plugin point policies policy pool port possible possibly post postmaster
  potentially prefix presented prevent prevented previous prior problem problems proceed process
  processed processing profile prohibited protect protected protection protocol provide provided
  provider proxy ptr public publish quarantine query queue queued quit quota quotas rate rates
  rbl reach reached read ready reason reasons receive received receiver receives receiving
  recent recently recipient recipients record records redirect redirected reduce refer refresh
  refused refusing region register registered reject rejected rejecting rejection rejects relay
  relayed relaying remote remove removed repeated replied reply report reported reporting
  reports reputation request requested requests require required requirements requires resend
  reset resolve resolved resource resources responded responding response rest restricted
  restriction restrictions result results resume retrieval retrieve retry retrying return
  returned returns reverse review reviewed rfc right route routing rset rule rules said same
  sasl saved saw say says scanner scanning scheduled score second seconds secret section secure
  security see seems send sender senders sending sends sent separate sequence server servers
  service services session sessions set setting settings several should shouldnt shutting
  signature signed signing simultaneous since site size slow smtp smtputf so socket software
  something soon sorry source space spam spammer spamming specific specified spf spoofed
  spoofing ssl sso stale standard standards start started starttls status step still stop
  stopped storage store stored string subject submission submit submitted subscription
  successful successfully such support supported supports suppressed suppression sure suspected
  suspended suspicious symbolic syntax system systems take taken takes target tcp team
  temporarily temporary terminated terminating test text than that the their them then there
  therefore these they this those threshold throttle throttled throttling through throughput
  time timed timeout times timestamp tls to today token tokens tomorrow too total traffic
  transaction transactions transfer transient tried trouble troubleshooting try trying turn
  turned twice type typo typos unable unacceptable unauthenticated unauthorized unavailable
  unconfigured undefined undeliverable under undetermined undisclosed unencrypted unexpected
  unexpectedly unfortunately unhandled unicode unique unixuser unknown unless unmatched
  unnecessary unprocessed unreachable unrecognized unresolvable unresponsive unroutable
  unrouteable unsafe unsolicited unsubscribe unsubscribed unsupported until unusual unusually up
  upgrade upon upstream url use used user username users uses using utf valid validate validated
  validation value values verification verified verify verifying version very via violated
  violates violation virtual virus viruses visit volume wait waiting want warning was wasnt way
  we web website welcome well were werent what when where whether which while who whole whose
  why wish with within without wont work working would wrong www yes yet you your yours
"""
_SERVICES = """
  amazon amazonaws amazonses aol apple aws barracuda barracudacentral cloudmark cpanel dovecot
  exchange exim fastmail gmail google googlemail hotmail icloud ironport locaweb mailgun mailjet
  mandrill microsoft mimecast msn nosuchuser outlook postfix postini proofpoint qmail rackspace
  sendgrid sendmail ses sophos sorbs spamassassin spamcop spamhaus sparkpost surbl symantec
  trendmicro uceprotect uol uribl verizon yahoo yahooinc zen zimbra zoho
"""
_PORTUGUESE = """
  aceita aceito acesso alta autenticado autenticação bloqueada bloqueado bloqueio caixa
  caracteres cheia cheio cliente conexão conexões configuração conta contas conteúdo correio
  cota da de desativada desativado desconhecida desconhecido desta deste destinatário
  destinatários detectado domínio em encerrada encontrada encontrado endereço enviada enviado
  enviar envio erro esta este está excedeu excedida excedido excesso existe existente expirada
  falha favor fora inativa inativo incorreta incorreto indisponível inexistente inválida
  inválido limite lista mais mensagem mensagens mesmo minutos muitas muitos máximo na negada
  negado nenhum nesta neste novamente não número o ou para permissão permitida permitido pois
  política por possui postal recebida recebido recusada recusado rejeitada rejeitado remetente
  remetentes reputação resposta segurança sem senha servidor serviço suspeita suspeito suspensa
  suspenso tamanho tarde temporariamente temporário tente teve ultrapassou usuário usuários
  vazia verifique
"""
_ITALIAN = """
  accesso accettato alla allegato anomalo attendere attualmente autenticazione bloccato casella
  caselle che chiuso configurazione connessione contenuto credenziali del della destinatari
  destinatario di dimensione dimensioni disabilitata disabilitato disponibile dominio errato
  errore esaurita esaurito esiste esistente fallito fuori il indirizzo inesistente inviare invio
  la le limiti lo massima massimo messaggi messaggio mittente momento non numero oltre piena
  pieno più posta prego presente prova questa questo raggiunto respinto ricevere richiesta
  rifiutata rifiutato riprovare scaduto sconosciuta sconosciuto servizio sicurezza sospeso
  spazio sul superata superato superiore temporaneamente temporaneo troppe troppi trovato un uno
  utente utenti valido vietato
"""
KNOWN = frozenset(f"{_ENGLISH} {_SERVICES} {_PORTUGUESE} {_ITALIAN}".split())


def known_words(text: str, limit: int = REASON_LIMIT) -> str:
    """Return a provider's text with every word hidden that is not on the allowlist.

    ``550 5.1.1 <ana@x.test>: user ana unknown`` becomes ``550 5.1.1 *** user *** unknown``.
    """
    shown = list[str]()
    for chunk in text[:_READ].split():
        inner = chunk.strip(_EDGE)
        is_first = shown in ([], ["smtp;"])
        if not _is_known(inner) and not (is_first and _CODE.match(inner)):
            chunk = HIDDEN
        if chunk != HIDDEN or shown[-1:] != [HIDDEN]:
            shown.append(chunk)
    text = " ".join(shown)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _is_known(chunk: str) -> bool:
    if not chunk or _ENHANCED.match(chunk):
        return True
    if not _PLAIN.match(chunk):
        return False
    return all(_is_known_run(run) for run in _RUN.findall(chunk.replace("'", "")))


def _is_known_run(run: str) -> bool:
    """Return whether a run of letters is a known word, or known words in CamelCase."""
    parts = _PART.findall(run)
    return run.lower() in KNOWN or (
        "".join(parts) == run and all(part.lower() in KNOWN for part in parts)
    )


def provider_id(text: object, addresses: Iterable[str]) -> str:
    """Return the provider's message id, or an empty text if it contains one of the addresses."""
    found = str(text or "")
    low = found.lower()
    names = [part for a in addresses for part in (a.lower(), a.lower().rpartition("@")[0])]
    names_address = any(name in low for name in names if len(name) >= _SHORTEST_NAME)
    return found if _ID.match(found) and not names_address else ""
