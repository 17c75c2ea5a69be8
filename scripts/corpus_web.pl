# SPDX-License-Identifier: Apache-2.0
#
# stdin: the World English Bible as `mod2imp` writes it (an OSIS entry per verse).
# stdout: plain text, one paragraph a line, a line "\f" after each chapter.
#
# Only the running text stays: footnotes, cross references, headings, book introductions, speaker
# names and "Selah" go, and the Greek Esther, which tells Esther again. The lines of a poem become
# one paragraph. Typographic quotation marks become those of a keyboard, so that a prompt typed
# there looks like the text.
use strict;
use warnings;

binmode STDIN, ':encoding(UTF-8)';
binmode STDOUT, ':encoding(UTF-8)';

my $paragraph_mark = "\x{1}";

sub clean {
  my ($text) = @_;
  $text =~ s/\s+/ /g;
  $text =~ s/<div sID="(\w+)" type="(?:introduction|front|glossary)"\/>.*?<div eID="\1"[^>]*>/ /g;
  $text =~ s/<note\b.*?<\/note>/ /g;
  $text =~ s/<(title|speaker)\b.*?<\/\1>/ $paragraph_mark /g;
  $text =~ s/<l [^>]*sID="(\w+)" type="selah"\/>.*?<l eID="\1"[^>]*>/ /g;
  $text =~ s/\(?\bSelah\b\.?\)?//g;
  # Marks inside a sentence touch the words around them, all others stand between sentences.
  $text =~ s/<\/?(?:w|q|seg|name|rdg|catchWord)\b[^>]*>//g;
  $text =~ s/<(?:div [^>]*type="x-p"|lg |\/?list|\/?item|chapter )[^>]*>/ $paragraph_mark /g;
  $text =~ s/<[^>]*>/ /g;
  $text =~ s/&lt;/</g;
  $text =~ s/&gt;/>/g;
  $text =~ s/&quot;/"/g;
  $text =~ s/&apos;/'/g;
  $text =~ s/&amp;/&/g;
  my @paragraphs;
  for (split /$paragraph_mark/, $text) {
    s/[\s\x{a0}\x{2009}\x{200a}\x{202f}]+/ /g;
    s/ ([,.;:!?)\x{2019}\x{201d}])/$1/g;
    s/([(\x{2018}\x{201c}]) /$1/g;
    s/ ?\x{2014} ?/\x{2014}/g;
    tr/\x{2018}\x{2019}\x{201c}\x{201d}[]/''""/d;
    s/^ | $//g;
    push @paragraphs, $_ if /\w/;
  }
  return @paragraphs;
}

my ($document, $text) = ('', '');

sub finish {
  my @paragraphs = clean($text);
  print map({ "$_\n" } @paragraphs), "\f\n" if @paragraphs;
  $text = '';
}

while (my $line = <STDIN>) {
  if ($line =~ /^\$\$\$(.*)$/) {
    my $key = $1;
    my $chapter = $key =~ /^(?!Esther \(Greek\))(.+ [1-9]\d*):\d+$/ ? $1 : '';
    finish() if $document ne '' && $chapter ne $document;
    $document = $chapter;
  } elsif ($document ne '') {
    $text .= ' ' . $line;
  }
}
finish() if $document ne '';
